import { setup, weather, calc } from './common.mjs';
import { generateText, streamText, embed, embedMany, tool, stepCountIs, Output } from 'ai';
import { registerTelemetry, ToolLoopAgent } from 'ai';
import { OpenTelemetry, LegacyOpenTelemetry } from '@ai-sdk/otel';
import { createOpenAI } from '@ai-sdk/openai';
import { z } from 'zod';
const provider = await setup(process.env.CAP_PROTO || 'json');
registerTelemetry(process.env.CAP_LEGACY ? new LegacyOpenTelemetry() : new OpenTelemetry());
const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL || 'http://127.0.0.1:18080/v1', apiKey: process.env.OPENAI_API_KEY || 'sk-dummy' });
const tools = { get_weather: tool({ description: 'Current weather for a city', inputSchema: z.object({ city: z.string() }), execute: async a => weather(a) }), calculator: tool({ description: 'Evaluate arithmetic', inputSchema: z.object({ expression: z.string() }), execute: async a => calc(a) }) };
const T = (functionId) => ({ telemetry: { isEnabled: true, functionId } });
const m = process.env.CAP_CHAT ? openai.chat('gpt-4.1-mini') : openai('gpt-5-mini');
const sys = 'You are a weather assistant.';
console.log((await generateText({ model: m, instructions: sys, prompt: 'What is the weather in Paris, in Fahrenheit too? (plan: noerr)', tools, stopWhen: stepCountIs(5), temperature: 0, ...T('weather-generate') })).text);
try { console.log((await generateText({ model: m, instructions: sys, prompt: 'What is the weather in Paris and Atlantis?', tools, stopWhen: stepCountIs(5), ...T('weather-error') })).text); } catch (e) { console.log('ERR', e.name, e.message); }
const s = streamText({ model: m, instructions: sys, messages: [{ role: 'user', content: 'Hello' }, { role: 'assistant', content: 'Hi! Which city?' }, { role: 'user', content: 'Paris please. (plan: noerr)' }], tools, stopWhen: stepCountIs(5), ...T('weather-stream') });
for await (const p of s.fullStream) { if (p.type === 'error') console.log('stream error', p.error.message); } console.log(await s.text);
console.log((await generateText({ model: m, output: Output.object({ schema: z.object({ city: z.string(), summary: z.string() }) }), prompt: 'Report for Paris', ...T('report-object') })).output);
console.log((await embed({ model: openai.embedding('text-embedding-3-small'), value: 'sunny day', ...T('embed-one') })).embedding.length > 0);
console.log((await embedMany({ model: openai.embedding('text-embedding-3-small'), values: ['sunny', 'rainy'], ...T('embed-many') })).embeddings.length);
try { await generateText({ model: openai('gpt-fail'), prompt: 'x', maxRetries: 0, ...T('llm-error') }); } catch (e) { console.log('ERR', e.name, e.message); }
const agent = new ToolLoopAgent({ id: 'weather-agent', model: m, instructions: sys, tools, ...T('weather-agent') });
console.log((await agent.generate({ prompt: 'Weather in Paris please. (plan: noerr)' })).text);
await provider.shutdown();
