import { NodeSDK } from '@opentelemetry/sdk-node';
import { OpenAIInstrumentation } from '@opentelemetry/instrumentation-openai';
const inst = new OpenAIInstrumentation({ captureMessageContent: true });
const sdk = new NodeSDK({ serviceName: process.env.CAP_NAME, instrumentations: [inst] }); sdk.start();
const { default: OpenAI } = await import('openai');
const { trace } = await import('@opentelemetry/api');
const tracer = trace.getTracer('demo-app', '1.0.0');
const weather = ({ city }) => { if (city === 'Atlantis') throw new Error('city not found: Atlantis'); return { city, temperature_c: 18, condition: 'sunny' }; };
const calc = ({ expression }) => ({ expression, value: Function('return (' + expression + ')')() });
const c = new OpenAI({ baseURL: process.env.OPENAI_BASE_URL || 'http://127.0.0.1:18080/v1', apiKey: process.env.OPENAI_API_KEY || 'sk-dummy', maxRetries: 0 });
const tools = [['get_weather', 'city'], ['calculator', 'expression']].map(([name, p]) => ({ type: 'function', function: { name, description: name, parameters: { type: 'object', properties: { [p]: { type: 'string' } }, required: [p] } } }));
const loop = (q, stream) => tracer.startActiveSpan('invoke_agent weather', { attributes: { 'gen_ai.operation.name': 'invoke_agent', 'gen_ai.agent.name': 'weather' } }, async (root) => {
  const messages = [{ role: 'system', content: 'You are a weather assistant.' }, { role: 'user', content: q }];
  for (let i = 0; i < 5; i++) {
    let m;
    if (stream) {
      m = { role: 'assistant', content: '', tool_calls: [] };
      for await (const ch of await c.chat.completions.create({ model: 'gpt-4.1-mini', messages, tools, stream: true, stream_options: { include_usage: true } })) {
        const d = ch.choices[0]?.delta; if (!d) continue; if (d.content) m.content += d.content;
        for (const t of d.tool_calls ?? []) { const x = (m.tool_calls[t.index] ??= { id: t.id, type: 'function', function: { name: t.function.name, arguments: '' } }); x.function.arguments += t.function.arguments; }
      }
      if (!m.tool_calls.length) delete m.tool_calls;
    } else m = (await c.chat.completions.create({ model: 'gpt-4.1-mini', messages, tools, temperature: 0 })).choices[0].message;
    messages.push(m); if (!m.tool_calls) { root.end(); return m.content; }
    for (const t of m.tool_calls) await tracer.startActiveSpan('execute_tool ' + t.function.name, { attributes: { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': t.function.name, 'gen_ai.tool.call.id': t.id } }, async (s) => {
      let out; try { out = t.function.name === 'calculator' ? calc(JSON.parse(t.function.arguments)) : weather(JSON.parse(t.function.arguments)); } catch (e) { s.recordException(e); s.setStatus({ code: 2, message: e.message }); out = { error: e.message }; }
      s.end(); messages.push({ role: 'tool', tool_call_id: t.id, content: JSON.stringify(out) });
    });
  }
});
console.log(await loop('What is the weather in Paris and Atlantis?', false));
console.log(await loop('What is the weather in Paris? (plan: noerr)', true));
console.log((await c.embeddings.create({ model: 'text-embedding-3-small', input: ['sunny'] })).data.length);
try { await c.chat.completions.create({ model: 'gpt-fail', messages: [{ role: 'user', content: 'x' }] }); } catch (e) { console.log('ERR', e.message); }
await sdk.shutdown();
