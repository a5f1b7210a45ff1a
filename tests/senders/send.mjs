// Sends runs through the exporters of the OpenTelemetry SDK for JavaScript for some seconds.
// Arguments and output as of send.py.
import { SpanStatusCode, context, trace } from '@opentelemetry/api';
import { ExportResultCode } from '@opentelemetry/core';
import { OTLPTraceExporter as Grpc } from '@opentelemetry/exporter-trace-otlp-grpc';
import { OTLPTraceExporter as Json } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as Proto } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, NodeTracerProvider } from '@opentelemetry/sdk-trace-node';

const [http, grpc, seconds] = process.argv.slice(2);
const told = {};

function provider(name, exporter) {
  told[name] = { sent: [], acknowledged: [] };
  const observed = {
    export(spans, done) {
      exporter.export(spans, result => {
        if (result.code === ExportResultCode.SUCCESS) {
          told[name].acknowledged.push(...spans.map(span => span.spanContext().spanId));
        }
        done(result);
      });
    },
    shutdown: () => exporter.shutdown(),
    forceFlush: () => exporter.forceFlush?.() ?? Promise.resolve(),
  };
  const processor = new BatchSpanProcessor(observed, {
    maxQueueSize: 1_000_000, scheduledDelayMillis: 100, maxExportBatchSize: 64, exportTimeoutMillis: 60_000,
  });
  const resource = resourceFromAttributes({ 'service.name': name });
  return { name, made: new NodeTracerProvider({ resource, spanProcessors: [processor] }) };
}

function messages(role, text) {
  return JSON.stringify([{ role, parts: [{ type: 'text', content: text }] }]);
}

function oneRun(service, tracer, number) {
  const ids = [];
  const span = (name, attributes, parent) => {
    const made = tracer.startSpan(name, { attributes }, parent);
    ids.push(made.spanContext().spanId);
    return made;
  };
  const root = span('invoke_agent sender', {
    'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'sender',
  }, context.active());
  const inside = trace.setSpan(context.active(), root);
  const chat = {
    'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'm',
    'gen_ai.input.messages': messages('user', `question ${number}`),
    'gen_ai.output.messages': messages('assistant', `answer ${number}`),
  };
  const tool = {
    'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': 'look',
    'gen_ai.tool.call.arguments': JSON.stringify({ n: number }), 'gen_ai.tool.call.result': String(number),
  };
  for (const [name, attributes] of [['chat m', chat], ['execute_tool look', tool], ['chat m', chat]]) {
    const child = span(name, attributes, inside);
    child.setStatus({ code: SpanStatusCode.UNSET });
    child.end();
  }
  root.end();
  told[service].sent.push(...ids);
}

const url = `${http}/v1/traces`;
const options = { timeoutMillis: 30_000 };
const providers = [
  provider('js-http-json', new Json({ url, ...options })),
  provider('js-http-json-gzip', new Json({ url, compression: 'gzip', ...options })),
  provider('js-http-proto', new Proto({ url, ...options })),
  provider('js-grpc', new Grpc({ url: grpc, ...options })),
];
const tracers = providers.map(({ name, made }) => [name, made.getTracer('sender')]);
const until = performance.now() + Number(seconds) * 1000;
for (let number = 0; performance.now() < until; number += 1) {
  tracers.forEach(([name, tracer]) => oneRun(name, tracer, number));
  await new Promise(resolve => setTimeout(resolve, 20));
}
for (const { made } of providers) {
  // A batch that an exporter gave up is no failure of this program.
  await made.forceFlush().catch(error => console.error(error.message));
  await made.shutdown().catch(error => console.error(error.message));
}
process.stdout.write(JSON.stringify(told));
