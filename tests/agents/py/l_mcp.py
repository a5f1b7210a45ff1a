"""MCP client and server (stdio, two processes, one sink): initialize, list_tools, call get_weather_tool, search_docs_tool (error result), search_docs_tool, all inside one client span.
MCP_SERVER is the command line of another server, MCP_URL the address of one over HTTP. INSTR: none = only what the SDK does itself with the OpenTelemetry API (mcp 2.x has spans built in), llmetry, oinf. The server process exports too (service.name weather-mcp)."""
import os, sys, asyncio, shlex
import otelsetup; S = otelsetup.setup(logs=False)
I = os.environ["INSTR"]
if I == "oinf":
    from openinference.instrumentation.mcp import MCPInstrumentor; MCPInstrumentor().instrument()
elif I == "llmetry":
    from opentelemetry.instrumentation.mcp import McpInstrumentor; McpInstrumentor().instrument()
from captools import *
from opentelemetry import trace
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
env = {**os.environ, "INSTR": "native" if I == "none" else I, "SVC": "weather-mcp"}
command, *args = shlex.split(os.environ.get("MCP_SERVER", "")) or [sys.executable, os.path.join(os.path.dirname(__file__), "l_mcp_server.py")]
async def main():
    url = os.environ.get("MCP_URL")
    if url: from mcp.client.streamable_http import streamablehttp_client
    async with (streamablehttp_client(url) if url else stdio_client(StdioServerParameters(command=command, args=args, env=env))) as (r, w, *_):
        async with ClientSession(r, w) as s:
            with trace.get_tracer("weather-agent.app").start_as_current_span("invoke_agent weather-agent", attributes={"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "weather-agent"}):
                await s.initialize(); await s.list_tools()
                for n, a in (("get_weather_tool", {"city": "Paris"}), ("search_docs_tool", {"query": "umbrella policy", "top_k": 5}), ("search_docs_tool", {"query": "umbrella policy", "top_k": 2})):
                    x = await s.call_tool(n, a)
                    truth(kind="mcp_call", name=n, arguments=a, is_error=bool(getattr(x, "isError", None) or getattr(x, "is_error", None)), result=[getattr(c, "text", "") for c in x.content])
            await asyncio.sleep(0.3)
asyncio.run(main()); S.done()
