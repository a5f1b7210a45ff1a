"""Sends runs through the exporters of the OpenTelemetry SDK for Python for some seconds.

Arguments: the OTLP/HTTP address, the OTLP/gRPC address, seconds. Prints what was sent and what each exporter saw
acknowledged, as {service: {"sent": [span id], "acknowledged": [span id]}}.
"""

import json
import sys
import threading
import time

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as Grpc
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as Http
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from grpc import Compression as GrpcCompression

http_address, grpc_address, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
told = {}
lock = threading.Lock()


class Told(SpanExporter):
    """An exporter that writes down what was acknowledged."""

    def __init__(self, name, inner):
        self.name, self.inner = name, inner

    def export(self, spans):
        result = self.inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            with lock:
                told[self.name]["acknowledged"].extend(format(span.context.span_id, "016x") for span in spans)
        return result

    def shutdown(self):
        self.inner.shutdown()


def provider(name, exporter):
    told[name] = {"sent": [], "acknowledged": []}
    made = TracerProvider(resource=Resource({"service.name": name}))
    made.add_span_processor(
        BatchSpanProcessor(Told(name, exporter), max_queue_size=1_000_000, schedule_delay_millis=100, max_export_batch_size=64)
    )
    return made


def messages(role, text):
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def one_run(name, tracer, number):
    span = tracer.start_as_current_span

    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "sender"}
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": messages("user", f"question {number}"),
        "gen_ai.output.messages": messages("assistant", f"answer {number}"),
    }
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.arguments": json.dumps({"n": number}),
        "gen_ai.tool.call.result": str(number),
    }
    with span("invoke_agent sender", attributes=agent) as root:
        ids = [root]
        for step, attributes in [("chat m", chat), ("execute_tool look", tool), ("chat m", chat)]:
            with span(step, attributes=attributes) as child:
                ids.append(child)
    told[name]["sent"].extend(format(span.get_span_context().span_id, "016x") for span in ids)


url = f"{http_address}/v1/traces"
providers = [
    provider("py-http", Http(endpoint=url, timeout=30)),
    provider("py-http-gzip", Http(endpoint=url, timeout=30, compression=Compression.Gzip)),
    provider("py-grpc", Grpc(endpoint=grpc_address, insecure=True, timeout=30)),
    provider("py-grpc-gzip", Grpc(endpoint=grpc_address, insecure=True, timeout=30, compression=GrpcCompression.Gzip)),
]
tracers = {each.resource.attributes["service.name"]: each.get_tracer("sender") for each in providers}
until = time.monotonic() + seconds
number = 0
while time.monotonic() < until:
    for name, tracer in tracers.items():
        one_run(name, tracer, number)
    number += 1
    time.sleep(0.02)
for each in providers:
    each.force_flush(60_000)
    each.shutdown()
json.dump(told, sys.stdout)
