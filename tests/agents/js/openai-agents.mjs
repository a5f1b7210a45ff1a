import { setup, weather, calc } from './common.mjs';
const provider = await setup(process.env.CAP_PROTO || 'json');
import * as agentsSdk from '@openai/agents';
import { OpenAIAgentsInstrumentation } from '@arizeai/openinference-instrumentation-openai-agents';
import OpenAI from 'openai';
import { z } from 'zod';
const { Agent, run, tool, setDefaultOpenAIClient, setOpenAIAPI, setTracingExportApiKey, OpenAIChatCompletionsModel, OpenAIResponsesModel, handoff, withTrace } = agentsSdk;
const inst = new OpenAIAgentsInstrumentation({ tracerProvider: provider });
inst.manuallyInstrument ? inst.manuallyInstrument(agentsSdk) : inst.instrument?.(agentsSdk);
const client = new OpenAI({ baseURL: process.env.OPENAI_BASE_URL || 'http://127.0.0.1:18080/v1', apiKey: process.env.OPENAI_API_KEY || 'sk-dummy' });
setDefaultOpenAIClient(client); setOpenAIAPI(process.env.CAP_CHAT ? 'chat_completions' : 'responses');
const get_weather = tool({ name: 'get_weather', description: 'Current weather', parameters: z.object({ city: z.string() }), execute: async a => weather(a) });
const calculator = tool({ name: 'calculator', description: 'Arithmetic', parameters: z.object({ expression: z.string() }), execute: async a => calc(a) });
const agent = new Agent({ name: 'Weather agent', instructions: 'You are a weather assistant.', model: 'gpt-4.1-mini', tools: [get_weather, calculator] });
const triage = Agent.create({ name: 'Triage agent', instructions: 'Route to the right agent.', model: 'gpt-4.1-mini', handoffs: [agent] });
await withTrace('Weather workflow', async () => { console.log((await run(agent, 'What is the weather in Paris and Atlantis?')).finalOutput); }, { groupId: 'session-42', metadata: { tier: 'free' } });
const s = await run(agent, 'Weather in Paris please. (plan: noerr)', { stream: true }); for await (const e of s) {} await s.completed; console.log(s.finalOutput);
try { console.log((await run(triage, 'Weather in Paris? (plan: noerr)')).finalOutput); } catch (e) { console.log('ERR', e.message); }
if (process.env.CAP_FAIL !== '0') try { await run(new Agent({ name: 'Broken agent', model: 'gpt-fail', instructions: 'x' }), 'hi'); } catch (e) { console.log('ERR', e.message); }
await agentsSdk.getGlobalTraceProvider().forceFlush?.(); await provider.forceFlush(); await provider.shutdown();
