"""The agents that run.py executes: first against a model server, then from the record alone.

`home` names the packages (requirements-NAME.txt, or the folder js*), `capture` the folder of tests/captures that this very
program was recorded in. `covers` says what the program does, in the words of what must be covered. Further: `simulated`,
variables that lead the second execution to the session, for the shell; `partial`, why the record has a hole that must be
taken; `whole`, why runs that have holes are left out; `unlinked`, why the second execution does not say where it comes
from; `node`, options of Node.
"""

CONTENT = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "SPAN_AND_EVENT"}
STABLE = {"OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental,gen_ai_tool_definitions"}


def py(name, home, program, env=None, covers="", capture=None, **more):
    return {"name": name, "home": f"py-{home}", "program": program, "env": env or {}, "covers": covers.split(),
            "capture": capture, "models": "py", **more}


def js(name, program, env=None, covers="", capture=None, home="js", **more):
    return {"name": name, "home": home, "program": program, "env": env or {}, "covers": covers.split(),
            "capture": capture, "models": "js", **more}


SCENARIOS = [
    py("openai-genai", "genai", "a_openai.py", {"INSTR": "genai", "MANUAL": "1", **CONTENT},
       "chat responses embeddings parallel retry", "py-genai-openai"),
    py("openai-openinference", "openinference", "a_openai.py", {"INSTR": "oinf"},
       "chat responses embeddings parallel retry", "py-oinf-openai"),
    py("openai-openllmetry", "openllmetry", "a_openai.py", {"INSTR": "llmetry"},
       "chat responses embeddings parallel retry", "py-llmetry-openai"),
    py("openai-streamed", "openinference", "a_streamed.py", {"INSTR": "oinf"}, "chat streamed parallel retry"),
    py("anthropic-openinference", "openinference", "c_anthropic.py", {"INSTR": "oinf", "USING": "1"},
       "anthropic streamed parallel retry", "py-oinf-anthropic"),
    py("anthropic-traceloop", "openllmetry", "c_anthropic.py", {"INSTR": "llmetry", "DECOR": "1"},
       "anthropic streamed parallel retry", "py-traceloop-sdk", whole="the SDK's own span of the failed call is a trace of its own"),
    py("anthropic-genai", "genai", "c_anthropic.py", {"INSTR": "genai", **CONTENT}, "anthropic streamed parallel retry"),
    py("google-genai", "google", "c_google.py",
       {"INSTR": "otel", **CONTENT, "OTEL_SEMCONV_STABILITY_OPT_IN": "gen_ai_latest_experimental"},
       "gemini streamed parallel retry", "py-google-genai-otel"),
    py("google-openinference", "google", "c_google.py", {"INSTR": "oinf"}, "gemini streamed parallel retry"),
    py("langgraph-retry", "openinference", "e_langgraph.py", {"INSTR": "oinf", "PARTS": "5"}, "chat parallel retry",
       "py-oinf-langgraph-retry"),
    py("langgraph-approval", "genai", "e_langgraph.py", {"INSTR": "genai", "PARTS": "12", **CONTENT},
       "chat parallel retry", "py-genai-langchain-12"),
    py("langgraph-subagent", "openllmetry", "e_langgraph.py", {"INSTR": "llmetry", "PARTS": "3"},
       "chat streamed subagent", "py-llmetry-langgraph-3"),
    py("agents-openinference", "openinference", "f_agents.py", {"INSTR": "oinf"},
       "responses streamed parallel retry handoff guardrail", "py-oinf-openai-agents"),
    py("agents-genai-chat", "genai", "f_agents.py", {"INSTR": "genai", "API": "chat", "ALSO_OPENAI": "1", **CONTENT},
       "chat streamed parallel retry handoff guardrail"),
    py("agents-openllmetry", "openllmetry", "f_agents.py", {"INSTR": "llmetry"},
       "responses streamed parallel retry handoff guardrail", "py-llmetry-openai-agents"),
    py("pydantic-ai", "pydantic", "g_pydantic.py", {}, "chat streamed parallel retry subagent structured",
       "py-pydantic-default"),
    py("strands", "strands", "h_strands.py", STABLE, "chat streamed parallel retry subagent", "py-strands-latest"),
    py("mcp-stdio", "mcp", "l_mcp.py", {"INSTR": "llmetry"}, "mcp retry", "py-mcp1-llmetry",
       simulated={"MCP_SERVER": "{spanreel} mcp-stdio --url $SPANREEL_MCP_URL"}),
    py("mcp-http", "mcp", "l_mcp.py", {"INSTR": "llmetry"}, "mcp retry",
       simulated={"MCP_URL": "$SPANREEL_MCP_URL"}),
    js("vercel-ai", "ai7.mjs", {}, "responses streamed parallel structured embeddings", "js-vercel-ai7"),
    js("vercel-ai-chat", "ai7.mjs", {"CAP_CHAT": "1", "CAP_PROTO": "proto", "CAP_GZIP": "1"},
       "chat streamed parallel structured embeddings", "js-vercel-ai7-chat"),
    js("agents-js", "openai-agents.mjs", {"CAP_FAIL": "0"}, "responses streamed parallel handoff",
       "js-openai-agents-openinference", whole="the call that fails has no input in its span"),
    js("langchain-js", "langchain.mjs", {}, "chat streamed parallel structured", "js-langchain-openinference"),
    js("openai-js", "otel-openai.mjs", {}, "chat streamed parallel embeddings", "js-otel-openai", home="js-openai6",
       node=["--no-warnings", "--experimental-loader={home}/node_modules/@opentelemetry/instrumentation/hook.mjs"]),
    js("openai-js-traceloop", "traceloop-openai.mjs", {"CAP_FAIL": "0"}, "chat streamed parallel", "js-traceloop-openai",
       home="js-openai6"),
]
