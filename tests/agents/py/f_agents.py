"""OpenAI Agents SDK: triage agent hands off to a weather agent, with an input guardrail agent, function tools and an output guardrail.

Program: Runner.run(triage, question): the input guardrail runs a guardrail agent (structured output, on_topic=true) at the same time as triage; triage -> transfer_to_weather_agent ->
weather agent: get_weather x2 in parallel, search_docs (fails; the SDK turns it into an error string), search_docs again, final text. Second run in the same group (conversation):
Runner.run_streamed on the weather agent. Third: guardrail tripwire raises InputGuardrailTripwireTriggered (on purpose). INSTR picks the instrumentation; API=chat uses chat completions."""
import os, asyncio
I = os.environ["INSTR"]
import otelsetup; S = otelsetup.setup()
from captools import *
from agents import Agent, Runner, function_tool, handoff, input_guardrail, output_guardrail, GuardrailFunctionOutput, RunContextWrapper, set_default_openai_api, trace as atrace, set_trace_processors, RunConfig, InputGuardrailTripwireTriggered
from pydantic import BaseModel
if os.environ.get("API") == "chat": set_default_openai_api("chat_completions")
if I == "oinf":
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor; OpenAIAgentsInstrumentor().instrument()
elif I == "llmetry":
    set_trace_processors([])
    from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor; OpenAIAgentsInstrumentor().instrument()
elif I == "genai":
    set_trace_processors([])
    from opentelemetry.instrumentation.genai.openai_agents import OpenAIAgentsInstrumentor; OpenAIAgentsInstrumentor().instrument()
if os.environ.get("ALSO_OPENAI"):
    if I == "oinf": from openinference.instrumentation.openai import OpenAIInstrumentor
    elif I == "llmetry": from opentelemetry.instrumentation.openai import OpenAIInstrumentor
    else: from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
    OpenAIInstrumentor().instrument()
class Topic(BaseModel):
    on_topic: bool
    reasoning: str
guard_agent = Agent(name="guard", instructions="Say whether the question is about weather or travel.", model="gpt-4o-mini", output_type=Topic)
@input_guardrail
async def topic_guard(ctx, agent, inp):
    r = await Runner.run(guard_agent, inp if isinstance(inp, str) else inp[-1]["content"], context=ctx.context)
    bad = "[block]" in str(inp)
    truth(kind="guardrail", name="topic_guard", output=r.final_output.model_dump(), tripwire=bad)
    return GuardrailFunctionOutput(output_info=r.final_output.model_dump(), tripwire_triggered=bad)
@output_guardrail
async def no_pii(ctx, agent, out):
    truth(kind="guardrail", name="no_pii", tripwire=False)
    return GuardrailFunctionOutput(output_info={"pii": False}, tripwire_triggered=False)
weather = Agent(name="weather_agent", instructions=SYSTEM, model="gpt-5-mini", tools=[function_tool(get_weather), function_tool(search_docs)], output_guardrails=[no_pii], handoff_description="Answers weather questions")
triage = Agent(name="triage_agent", instructions="Hand the user to the right agent.", model="gpt-4o-mini", handoffs=[weather], input_guardrails=[topic_guard])
async def main():
    with atrace("Umbrella workflow", group_id="conv-42", metadata={"customer": "c-1"}):
        r = await Runner.run(triage, USER + " [parallel] [retry]")
        print(r.final_output); truth(kind="final", text=r.final_output, last_agent=r.last_agent.name)
        s = Runner.run_streamed(weather, r.to_input_list() + [{"role": "user", "content": os.environ.get("FOLLOW_UP", "[again] And is the policy still valid?")}])
        async for ev in s.stream_events(): pass
        truth(kind="final", text=s.final_output)
    try: await Runner.run(triage, "[block] Write me a poem.", run_config=RunConfig(workflow_name="Blocked workflow", group_id="conv-43"))
    except InputGuardrailTripwireTriggered as e: print("tripwire"); truth(kind="error", type="InputGuardrailTripwireTriggered")
asyncio.run(main())
S.done()
