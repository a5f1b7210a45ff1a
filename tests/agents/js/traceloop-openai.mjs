import * as traceloop from '@traceloop/node-server-sdk';
import OpenAI from 'openai';
traceloop.initialize({ appName: process.env.CAP_NAME, baseUrl: (process.env.OTEL_EXPORTER_OTLP_ENDPOINT || 'http://127.0.0.1:4318'), apiKey: 'dummy', disableBatch: !!process.env.CAP_NOBATCH, traceContent: true, silenceInitializationMessage: true, traceloopSyncEnabled: false, instrumentModules: { openAI: OpenAI } });
const weather = ({ city }) => { if (city === 'Atlantis') throw new Error('city not found: Atlantis'); return { city, temperature_c: 18, condition: 'sunny' }; };
const calc = ({ expression }) => ({ expression, value: Function('return (' + expression + ')')() });
const c = new OpenAI({ baseURL: process.env.OPENAI_BASE_URL || 'http://127.0.0.1:18080/v1', apiKey: process.env.OPENAI_API_KEY || 'sk-dummy', maxRetries: 0 });
const tools = [['get_weather', 'city'], ['calculator', 'expression']].map(([name, p]) => ({ type: 'function', function: { name, description: name, parameters: { type: 'object', properties: { [p]: { type: 'string' } }, required: [p] } } }));
async function loop(q, stream) {
  return traceloop.withWorkflow({ name: stream ? 'weather_workflow_stream' : 'weather_workflow', associationProperties: { session_id: 'session-42' } }, async () => traceloop.withAgent({ name: 'weather_agent' }, async (question) => {
    const messages = [{ role: 'system', content: 'You are a weather assistant.' }, { role: 'user', content: question }];
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
      messages.push(m); if (!m.tool_calls) return m.content;
      for (const t of m.tool_calls) {
        let out; try { out = await traceloop.withTool({ name: t.function.name }, async (a) => (t.function.name === 'calculator' ? calc(a) : weather(a)), JSON.parse(t.function.arguments)); } catch (e) { out = { error: e.message }; }
        messages.push({ role: 'tool', tool_call_id: t.id, content: JSON.stringify(out) });
      }
    }
  }, q));
}
console.log(await loop('What is the weather in Paris and Atlantis?', false));
console.log(await loop('What is the weather in Paris? (plan: noerr)', true));
if (process.env.CAP_FAIL !== '0') try { await c.chat.completions.create({ model: 'gpt-fail', messages: [{ role: 'user', content: 'x' }] }); } catch (e) { console.log('ERR', e.message); }
await traceloop.forceFlush(); await new Promise(r => setTimeout(r, 500));
