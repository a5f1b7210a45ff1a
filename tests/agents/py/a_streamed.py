"""OpenAI SDK agent loop written by hand, every answer streamed, calls of tools in pieces too, inside a span of its own. INSTR=oinf."""
import json
import otelsetup; S = otelsetup.setup()
from openinference.instrumentation.openai import OpenAIInstrumentor; OpenAIInstrumentor().instrument()
from opentelemetry import trace
from captools import *
import openai
c = openai.OpenAI(max_retries=0)
def turn(msgs):
    txt, calls = "", {}
    for ch in c.chat.completions.create(model="gpt-4o-mini", messages=msgs, tools=OPENAI_TOOLS, stream=True, stream_options={"include_usage": True}):
        if not ch.choices: continue
        txt += ch.choices[0].delta.content or ""
        for t in ch.choices[0].delta.tool_calls or []:
            x = calls.setdefault(t.index, {"id": t.id, "type": "function", "function": {"name": t.function.name, "arguments": ""}})
            x["function"]["arguments"] += t.function.arguments or ""
    return txt, [calls[k] for k in sorted(calls)]
def loop(msgs):
    for i in range(8):
        txt, calls = turn(msgs)
        if not calls: return txt
        msgs.append({"role": "assistant", "content": txt or None, "tool_calls": calls})
        for t in calls:
            try: o = TOOLS[t["function"]["name"]](**json.loads(t["function"]["arguments"]))
            except Exception as e: o = f"Error: {type(e).__name__}: {e}"
            msgs.append({"role": "tool", "tool_call_id": t["id"], "content": o})
with trace.get_tracer("weather-agent.app").start_as_current_span("invoke_agent weather-agent", attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather-agent"}):
    out = loop([{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER + " [parallel] [retry]"}])
print(out); truth(kind="final", text=out)
S.done()
