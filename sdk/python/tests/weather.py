"""An agent, and the record of it: it asks a model for the weather, which asks a tool."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import spanreel

MODEL = "gpt-4o-mini"
QUESTION = "What is the weather in Paris?"
ANSWER = "It is 21 degrees in Paris."
TRACE = "5eed0000000000000000000000000001"
#: A run whose first model call was recorded without its answer.
PARTIAL_TRACE = "5eed0000000000000000000000000002"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
            },
        },
    }
]


@spanreel.tool
def get_weather(city: str) -> dict[str, Any]:
    """Fails unless a simulation answers."""
    raise AssertionError(f"the tool itself ran, for {city}")


def chat(base_url: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One call of the model, with OpenAI's wire format."""
    body = {"model": MODEL, "messages": messages, "tools": TOOLS}
    request = urllib.request.Request(
        f"{base_url}/chat/completions",
        json.dumps(body).encode(),
        {"content-type": "application/json", "authorization": "Bearer x"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        message: dict[str, Any] = json.loads(answer.read())["choices"][0]["message"]
    return message


def agent(
    question: str = QUESTION,
    base_url: str | None = None,
    weather: Callable[..., Any] = get_weather,
) -> str:
    """Asks until the model has no more calls of tools."""
    base_url = base_url or os.environ["OPENAI_BASE_URL"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    while True:
        message = chat(base_url, messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            result = json.dumps(weather(**arguments))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def write(path: Path) -> None:
    """The telemetry of the agent, as OTLP/JSON."""
    call = {
        "type": "tool_call",
        "id": "call_1",
        "name": "get_weather",
        "arguments": {"city": "Paris"},
    }
    user = {"role": "user", "parts": [{"type": "text", "content": QUESTION}]}
    asks = {"role": "assistant", "parts": [call], "finish_reason": "tool_call"}
    result = {"type": "tool_call_response", "id": "call_1", "response": {"celsius": 21}}
    told = {"role": "tool", "parts": [result]}
    says = {
        "role": "assistant",
        "parts": [{"type": "text", "content": ANSWER}],
        "finish_reason": "stop",
    }
    spans = []
    for trace, first_answer in ((TRACE, [asks]), (PARTIAL_TRACE, None)):
        root = _span(trace, 1, None, "invoke_agent weather", operation="invoke_agent")
        chats = [
            _chat(trace, 2, [user], first_answer),
            _tool(trace, 3),
            _chat(trace, 4, [user, {**asks, "finish_reason": None}, told], [says]),
        ]
        spans += [root, *chats]
    scope = {"scope": {"name": "weather"}, "spans": spans}
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [scope]}]}))


def _chat(trace: str, number: int, given: list[Any], answer: list[Any] | None) -> dict[str, Any]:
    attributes = {
        "operation": "chat",
        "provider.name": "openai",
        "request.model": MODEL,
        "usage.input_tokens": 10 * number,
        "usage.output_tokens": number,
        "input.messages": [_known(message) for message in given],
        "tool.definitions": [{"type": "function", **tool["function"]} for tool in TOOLS],  # type: ignore[dict-item]
    }
    if answer is not None:
        attributes["output.messages"] = answer
    return _span(trace, number, 1, f"chat {MODEL}", **attributes)


def _known(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if value is not None}


def _tool(trace: str, number: int) -> dict[str, Any]:
    attributes = {
        "operation": "execute_tool",
        "tool.name": "get_weather",
        "tool.call.id": "call_1",
        "tool.call.arguments": {"city": "Paris"},
        "tool.call.result": {"celsius": 21},
    }
    return _span(trace, number, 1, "execute_tool get_weather", **attributes)


def _span(
    trace: str, number: int, parent: int | None, name: str, **attributes: Any
) -> dict[str, Any]:
    attributes["operation.name"] = attributes.pop("operation")
    start = 1_790_000_000_000_000_000 + number * 1_000_000_000
    length = 10_000_000_000 if parent is None else 500_000_000
    return {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "parentSpanId": "" if parent is None else f"{parent:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + length),
        "attributes": [_attribute(f"gen_ai.{k}", v) for k, v in attributes.items()],
    }


def _attribute(key: str, value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"key": key, "value": {"intValue": str(value)}}
    text = value if isinstance(value, str) else json.dumps(value)
    return {"key": key, "value": {"stringValue": text}}
