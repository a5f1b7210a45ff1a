import { setup, weather, calc } from './common.mjs';
const provider = await setup(process.env.CAP_PROTO || 'json');
import * as CallbackManagerModule from '@langchain/core/callbacks/manager';
import { LangChainInstrumentation } from '@arizeai/openinference-instrumentation-langchain';
new LangChainInstrumentation({ tracerProvider: provider }).manuallyInstrument(CallbackManagerModule);
import { ChatOpenAI } from '@langchain/openai';
import { createAgent, tool } from 'langchain';
import { StateGraph, MessagesAnnotation, START, END, MemorySaver } from '@langchain/langgraph';
import { ToolNode } from '@langchain/langgraph/prebuilt';
import { HumanMessage } from '@langchain/core/messages';
import { ChatPromptTemplate } from '@langchain/core/prompts';
import { z } from 'zod';
const llm = new ChatOpenAI({ model: 'gpt-4.1-mini', apiKey: process.env.OPENAI_API_KEY || 'sk-dummy', temperature: 0, configuration: { baseURL: process.env.OPENAI_BASE_URL || 'http://127.0.0.1:18080/v1' }, maxRetries: 0 });
const get_weather = tool(async a => JSON.stringify(weather(a)), { name: 'get_weather', description: 'Current weather', schema: z.object({ city: z.string() }) });
const calculator = tool(async a => JSON.stringify(calc(a)), { name: 'calculator', description: 'Arithmetic', schema: z.object({ expression: z.string() }) });
const tools = [get_weather, calculator];
// 1 langchain createAgent, sync
const agent = createAgent({ name: 'weather_agent', model: llm, tools, systemPrompt: 'You are a weather assistant.' });
const r = await agent.invoke({ messages: [new HumanMessage('What is the weather in Paris? (plan: noerr)')] }, { configurable: { thread_id: 'thread-42' }, metadata: { session_id: 'session-42', user_tier: 'free' } });
console.log(r.messages.at(-1).content);
// 2 hand-built LangGraph graph, streaming, tool error, 2 turns with checkpointer
const model = llm.bindTools(tools);
const g = new StateGraph(MessagesAnnotation).addNode('agent', async (s, c) => ({ messages: [await model.invoke(s.messages, c)] })).addNode('tools', new ToolNode(tools)).addEdge(START, 'agent').addConditionalEdges('agent', s => s.messages.at(-1).tool_calls?.length ? 'tools' : END).addEdge('tools', 'agent').compile({ checkpointer: new MemorySaver() });
const cfg = { configurable: { thread_id: 'thread-43' }, streamMode: 'messages', runName: 'weather_graph' };
for await (const c of await g.stream({ messages: [new HumanMessage('What is the weather in Paris and Atlantis?')] }, cfg)) {}
for await (const c of await g.stream({ messages: [new HumanMessage('And again for Paris? (plan: noerr)')] }, cfg)) {}
console.log((await g.getState(cfg)).values.messages.length);
// 3 LCEL chain w/ structured output
const chain = ChatPromptTemplate.fromMessages([['system', 'Report tool'], ['human', 'Report for {city}']]).pipe(llm.withStructuredOutput(z.object({ city: z.string(), summary: z.string() }), { name: 'report' }));
console.log(await chain.invoke({ city: 'Paris' }));
// 4 llm error
try { await new ChatOpenAI({ model: 'gpt-fail', apiKey: process.env.OPENAI_API_KEY || 'sk-dummy', maxRetries: 0, configuration: { baseURL: process.env.OPENAI_BASE_URL || 'http://127.0.0.1:18080/v1' } }).invoke('hi'); } catch (e) { console.log('ERR', e.message); }
await provider.forceFlush(); await provider.shutdown();
