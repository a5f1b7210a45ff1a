"""Deterministic fake model server (OpenAI chat/responses/embeddings, Anthropic messages, Gemini). Loopback only."""
import json, re, hashlib, sys, time, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
LOG = open(__import__('os').devnull, 'a')
LK = threading.Lock()
def h(*a): return hashlib.sha1(json.dumps(a, sort_keys=True, default=str).encode()).hexdigest()

def gen(schema, name='', root=None):
    root = root or schema
    if not isinstance(schema, dict): return 'x'
    if '$ref' in schema:
        cur = root
        for p in schema['$ref'].lstrip('#/').split('/'): cur = cur.get(p, {})
        return gen(cur, name, root)
    if 'const' in schema: return schema['const']
    if 'enum' in schema: return schema['enum'][0]
    for k in ('anyOf', 'oneOf'):
        if k in schema: return gen(schema[k][0], name, root)
    t = schema.get('type'); t = t[0] if isinstance(t, list) else t
    t = (t or ('object' if 'properties' in schema else 'string')).lower()
    if t == 'object':
        req = schema.get('required') or list(schema.get('properties', {}))
        return {k: gen(v, k, root) for k, v in schema.get('properties', {}).items() if k in req}
    if t == 'array': return [gen(schema.get('items', {}), name, root)]
    if t in ('number', 'integer'): return 7
    if t == 'boolean': return True
    return {'city': 'Paris', 'expression': '(18*9/5)+32', 'query': 'Paris travel', 'location': 'Paris', 'unit': 'celsius'}.get(name, f'{name or "text"} value')

CWD = None
def script_for(names, user, tools):
    """-> list of turns; turn = {'text':..., 'calls':[(name,args)]}"""
    s = set(names); g = lambda t, *c: {'text': t, 'calls': list(c)}
    m = re.search(r'\(plan: ([a-z0-9-]+)\)', user); plan = m.group(1) if m else None
    m = re.search(r'\(dir: ([^)]+)\)', user); d = m.group(1) if m else '.'
    if 'Bash' in s and 'Read' in s:
        if plan == 'subagent':
            tn = 'Agent' if 'Agent' in s else 'Task'
            return [g('I will delegate the count.', (tn, {'description': 'Count lines', 'prompt': f'Count the lines of notes.txt (plan: count) (dir: {d})', 'subagent_type': 'general-purpose'})),
                    g('The sub-agent reports 3 lines in notes.txt.')]
        if plan == 'count':
            return [g('', ('Bash', {'command': f'wc -l < {d}/notes.txt', 'description': 'Count lines'})), g('notes.txt has 3 lines.')]
        return [g('Let me look at the directory first.', ('Bash', {'command': 'ls -1 && cat notes.txt', 'description': 'List files and show notes'})),
                g('', ('Read', {'file_path': f'{d}/notes.txt'}), ('Bash', {'command': 'cat missing.txt', 'description': 'Show a missing file'})),
                g('', ('Write', {'file_path': f'{d}/summary.txt', 'content': 'three fruits\n'})),
                g('Done: notes.txt lists three fruits; missing.txt does not exist; I wrote summary.txt.')]
    if s & {'exec_command', 'shell', 'shell_command', 'local_shell'}:
        def sh(c):
            if 'exec_command' in s: return ('exec_command', {'cmd': c})
            if 'shell_command' in s: return ('shell_command', {'command': c})
            return ('shell', {'command': ['bash', '-lc', c]})
        t = [g('Let me look at the directory first.', sh('ls -1 && cat notes.txt'))]
        t.append(g('', sh('cat missing.txt')))
        if 'update_plan' in s: t.append(g('', ('update_plan', {'explanation': 'files read', 'plan': [{'step': 'Read files', 'status': 'completed'}, {'step': 'Answer', 'status': 'in_progress'}]})))
        t.append(g('Done: notes.txt lists three fruits; missing.txt does not exist.'))
        return t
    if 'run_shell_command' in s:
        return [g('Let me look at the directory first.', ('run_shell_command', {'command': 'ls -1 && cat notes.txt', 'description': 'List files'})),
                g('', ('read_file', {'file_path': f'{d}/notes.txt', 'absolute_path': f'{d}/notes.txt'} if 'absolute_path' in json.dumps(tools) else {'file_path': f'{d}/notes.txt'}), ('run_shell_command', {'command': 'cat missing.txt', 'description': 'Show a missing file'})),
                g('Done: notes.txt lists three fruits; missing.txt does not exist.')]
    if 'bash' in s and 'read' in s:
        return [g('Let me look at the directory first.', ('bash', {'command': 'ls -1 && cat notes.txt', 'description': 'List files'})),
                g('', ('read', {'filePath': f'{d}/notes.txt'}), ('read', {'filePath': f'{d}/missing.txt'})),
                g('Done: notes.txt lists three fruits; missing.txt does not exist.')]
    if not names: return []
    sch = {t['name']: t['schema'] for t in tools}
    first = 'get_weather' if 'get_weather' in s else 'getWeather' if 'getWeather' in s else names[0]
    wargs = lambda c: {**gen(sch[first]), **({'city': c} if 'city' in (sch[first].get('properties') or {}) else {})}
    other = [n for n in names if n != first]
    t = [g('Let me check the weather.', (first, wargs('Paris')))]
    second = [(other[0], gen(sch[other[0]]))] if other else []
    if plan != 'noerr': second.append((first, wargs('Atlantis')))
    if second: t.append(g('', *second))
    t.append(g('It is 18 degrees Celsius (64.4 F) and sunny in Paris; Atlantis could not be found.'))
    return t

def decide(conv):
    """conv: {tools:[{name,schema}], user:str, turn:int, schema:json schema or None, force:name or None}"""
    names = [t['name'] for t in conv['tools']]
    m = re.search(r'\(slow: (\d+)\)', conv['user'])
    if m and conv['turn'] >= 1: time.sleep(int(m.group(1)))
    if conv.get('force'):
        sc = next(t['schema'] for t in conv['tools'] if t['name'] == conv['force'])
        if conv['turn'] == 0: return {'text': '', 'calls': [(conv['force'], gen(sc))]}
    sc = script_for(names, conv['user'], conv['tools'])
    if conv['turn'] < len(sc) and (sc[conv['turn']]['calls'] or sc[conv['turn']]['text']) and not (conv.get('schema') and conv['turn'] == len(sc) - 1):
        return sc[conv['turn']]
    if conv.get('schema'): return {'text': json.dumps(gen(conv['schema'])), 'calls': []}
    if sc: return sc[-1]
    return {'text': 'Paris weather report: 18 degrees and sunny.', 'calls': []}

def usage(turn, text, calls):
    inp = 1203 + 157 * turn; cached = 1024 if turn else 0
    out = 9 + len(text) // 4 + 21 * len(calls)
    return inp, cached, out
TURN = re.compile(r't(\d+)k\d+')
def cid(prefix, conv, k): return f"{prefix}{h(conv['user'], conv['turn'], k)[:12]}t{conv['turn']}k{k}"
def chunks(s, n=3):
    w = re.findall(r'\S+\s*|\s+', s); step = max(1, -(-len(w) // n)); return [''.join(w[i:i + step]) for i in range(0, len(w), step)] or ['']
def split(s): return [s[:len(s) // 2], s[len(s) // 2:]] if len(s) > 3 else [s]
def txt(c):
    if isinstance(c, str): return c
    if isinstance(c, list): return '\n'.join(p.get('text', '') for p in c if isinstance(p, dict))
    return ''

class H(BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *a): pass
    def js(self, o, code=200, extra=()):
        b = json.dumps(o).encode(); self.send_response(code); self.send_header('Content-Type', 'application/json'); self.send_header('Content-Length', str(len(b)))
        self.send_header('x-request-id', getattr(self, 'rid', 'req_0')); self.send_header('request-id', getattr(self, 'rid', 'req_0'))
        for k, v in extra: self.send_header(k, v)
        self.end_headers(); self.wfile.write(b)
    def sse(self, evs):
        self.send_response(200); self.send_header('Content-Type', 'text/event-stream'); self.send_header('Connection', 'close')
        self.send_header('x-request-id', self.rid); self.send_header('request-id', self.rid); self.end_headers()
        for ev, d in evs:
            b = (f'event: {ev}\n' if ev else '') + 'data: ' + (d if isinstance(d, str) else json.dumps(d)) + '\n\n'
            self.wfile.write(b.encode()); self.wfile.flush(); time.sleep(0.01)
        self.close_connection = True
    def do_HEAD(self): self.send_response(200); self.send_header('Content-Length', '0'); self.end_headers()
    def do_GET(self):
        self.note({}); p = self.path.split('?')[0]
        if p.endswith('/models'):
            ids = ['gpt-4.1-mini', 'gpt-5-mini', 'claude-sonnet-4-5']
            return self.js({'object': 'list', 'data': [{'id': i, 'object': 'model', 'created': 1700000000, 'owned_by': 'fake'} for i in ids], 'models': []})
        self.js({'error': {'message': 'not found', 'type': 'not_found'}}, 404)
    def note(self, req):
        with LK:
            LOG.write(json.dumps({'m': self.command, 'path': self.path, 'ua': self.headers.get('user-agent'), 'traceparent': self.headers.get('traceparent'), 'req': req})[:60000] + '\n'); LOG.flush()
    def do_POST(self):
        n = self.headers.get('Content-Length')
        if n is not None: raw = self.rfile.read(int(n))
        else:
            raw = b''
            while True:
                l = int(self.rfile.readline().split(b';')[0], 16); c = self.rfile.read(l); self.rfile.readline()
                if not l: break
                raw += c
        enc = self.headers.get('content-encoding')
        if enc == 'gzip': import gzip; raw = gzip.decompress(raw)
        self.rid = 'req_' + hashlib.sha1(raw).hexdigest()[:20]
        try: req = json.loads(raw or b'{}')
        except Exception: req = {}
        self.note(req); p = self.path.split('?')[0]
        if isinstance(req, dict) and 'fail' in str(req.get('model', '')):
            return self.js({'type': 'error', 'error': {'type': 'invalid_request_error', 'message': f"model {req['model']} is not available", 'code': 'model_not_found', 'param': 'model'}}, 404)
        if p.endswith('/chat/completions'): return self.chat(req)
        if p.endswith('/responses'): return self.oresp(req)
        if p.endswith('/embeddings'): return self.emb(req)
        if p.endswith('/count_tokens'): return self.js({'input_tokens': 1203})
        if p.endswith('/messages'): return self.anth(req)
        if ':generateContent' in p or ':streamGenerateContent' in p: return self.gem(req, p)
        if ':countTokens' in p: return self.js({'totalTokens': 1203})
        self.js({'error': {'message': 'not found', 'type': 'not_found'}}, 404)
    # ---- OpenAI chat
    def chat(self, r):
        msgs = r.get('messages', []); li = max([i for i, m in enumerate(msgs) if m['role'] == 'user'] or [-1])
        turns = [int(x) for m in msgs[li + 1:] if m['role'] == 'tool' for x in TURN.findall(m.get('tool_call_id', ''))]
        turn = max(turns) + 1 if turns else sum(1 for m in msgs[li + 1:] if m['role'] == 'assistant' and m.get('tool_calls'))
        tools = [{'name': t['function']['name'], 'schema': t['function'].get('parameters') or {}} for t in r.get('tools', []) if t.get('type') == 'function']
        rf = r.get('response_format') or {}
        schema = (rf.get('json_schema') or {}).get('schema') if rf.get('type') == 'json_schema' else ({'type': 'object', 'properties': {'city': {}, 'summary': {}}} if rf.get('type') == 'json_object' else None)
        tc = r.get('tool_choice'); force = tc['function']['name'] if isinstance(tc, dict) and tc.get('function') else None
        conv = {'tools': tools if tc != 'none' else [], 'user': txt(msgs[li]['content']) if li >= 0 else '', 'turn': turn, 'schema': schema, 'force': force}
        a = decide(conv); inp, cached, out = usage(turn, a['text'], a['calls']); idd = 'chatcmpl-' + h(conv)[:20]
        u = {'prompt_tokens': inp, 'completion_tokens': out, 'total_tokens': inp + out, 'prompt_tokens_details': {'cached_tokens': cached, 'audio_tokens': 0}, 'completion_tokens_details': {'reasoning_tokens': 0, 'audio_tokens': 0, 'accepted_prediction_tokens': 0, 'rejected_prediction_tokens': 0}}
        calls = [{'id': cid('call_', conv, k), 'type': 'function', 'function': {'name': nm, 'arguments': json.dumps(ar)}} for k, (nm, ar) in enumerate(a['calls'])]
        fin = 'tool_calls' if calls else 'stop'; base = {'id': idd, 'created': 1764460800, 'model': r.get('model', '') + '-2025-04-14', 'system_fingerprint': 'fp_fake', 'service_tier': 'default'}
        if not r.get('stream'):
            m = {'role': 'assistant', 'content': a['text'] or None, 'refusal': None, 'annotations': []}
            if calls: m['tool_calls'] = calls
            return self.js({**base, 'object': 'chat.completion', 'choices': [{'index': 0, 'message': m, 'logprobs': None, 'finish_reason': fin}], 'usage': u})
        base['object'] = 'chat.completion.chunk'; iu = (r.get('stream_options') or {}).get('include_usage')
        def ck(d, f=None): return (None, {**base, 'choices': [{'index': 0, 'delta': d, 'logprobs': None, 'finish_reason': f}], **({'usage': None} if iu else {})})
        ev = [ck({'role': 'assistant', 'content': '' if a['text'] else None})]
        if a['text']: ev += [ck({'content': c}) for c in chunks(a['text'])]
        for k, c in enumerate(calls):
            ev.append(ck({'tool_calls': [{'index': k, 'id': c['id'], 'type': 'function', 'function': {'name': c['function']['name'], 'arguments': ''}}]}))
            ev += [ck({'tool_calls': [{'index': k, 'function': {'arguments': s}}]}) for s in split(c['function']['arguments'])]
        ev.append(ck({}, fin))
        if iu: ev.append((None, {**base, 'choices': [], 'usage': u}))
        ev.append((None, '[DONE]')); self.sse(ev)
    def emb(self, r):
        i = r.get('input'); i = [i] if isinstance(i, str) else i
        def v(s): return [round(int(h(s, k)[:4], 16) / 65535 - .5, 4) for k in range(8)]
        if r.get('encoding_format') == 'base64':
            import struct, base64; data = [base64.b64encode(struct.pack('<8f', *v(s))).decode() for s in i]
        else: data = [v(s) for s in i]
        self.js({'object': 'list', 'model': r.get('model'), 'data': [{'object': 'embedding', 'index': k, 'embedding': d} for k, d in enumerate(data)], 'usage': {'prompt_tokens': 6 * len(i), 'total_tokens': 6 * len(i)}})
    # ---- OpenAI responses
    def oresp(self, r):
        items = r.get('input', []); items = [{'role': 'user', 'content': items}] if isinstance(items, str) else items
        us = [i for i, m in enumerate(items) if m.get('role') == 'user']
        li = us[-1] if us else -1
        outs = [m for m in items[li + 1:] if m.get('type', '').endswith('call_output')]
        turns = [int(x) for m in outs for x in TURN.findall(m.get('call_id', ''))]; turn = max(turns) + 1 if turns else 0
        tools = [{'name': t['name'], 'schema': t.get('parameters') or {}} for t in r.get('tools', []) if t.get('type') == 'function']
        if any(t.get('type') == 'local_shell' for t in r.get('tools', [])): tools.append({'name': 'local_shell', 'schema': {}})
        f = (r.get('text') or {}).get('format') or {}; schema = f.get('schema') if f.get('type') == 'json_schema' else None
        tc = r.get('tool_choice'); force = tc.get('name') if isinstance(tc, dict) else None
        conv = {'tools': tools, 'user': txt(items[li]['content']) if li >= 0 else '', 'turn': turn, 'schema': schema, 'force': force}
        a = decide(conv); inp, cached, out = usage(turn, a['text'], a['calls']); rt = 0; output = []; rid = 'resp_' + h(conv)[:24]
        if r.get('reasoning') and (r['reasoning'] or {}).get('summary') and turn == 0:
            rt = 64; it = {'id': 'rs_' + h(rid)[:20], 'type': 'reasoning', 'summary': [{'type': 'summary_text', 'text': 'I should look at the available facts before answering.'}]}
            if 'reasoning.encrypted_content' in (r.get('include') or []): it['encrypted_content'] = 'gAAAAABfake' + h(rid)
            output.append(it)
        if a['text']: output.append({'id': 'msg_' + h(rid)[:20], 'type': 'message', 'status': 'completed', 'role': 'assistant', 'content': [{'type': 'output_text', 'text': a['text'], 'annotations': [], 'logprobs': []}]})
        for k, (nm, ar) in enumerate(a['calls']): output.append({'id': 'fc_' + h(rid, k)[:20], 'type': 'function_call', 'status': 'completed', 'call_id': cid('call_', conv, k), 'name': nm, 'arguments': json.dumps(ar)})
        u = {'input_tokens': inp, 'input_tokens_details': {'cached_tokens': cached}, 'output_tokens': out + rt, 'output_tokens_details': {'reasoning_tokens': rt}, 'total_tokens': inp + out + rt}
        R = lambda st, o, us: {'id': rid, 'object': 'response', 'created_at': 1764460800, 'status': st, 'background': False, 'error': None, 'incomplete_details': None, 'instructions': r.get('instructions'), 'max_output_tokens': r.get('max_output_tokens'), 'model': r.get('model', '') + '-2025-08-07', 'output': o, 'parallel_tool_calls': True, 'previous_response_id': r.get('previous_response_id'), 'reasoning': {'effort': None, 'summary': None}, 'service_tier': 'default', 'store': r.get('store', True), 'temperature': 1.0, 'text': r.get('text') or {'format': {'type': 'text'}}, 'tool_choice': r.get('tool_choice', 'auto'), 'tools': r.get('tools', []), 'top_p': 1.0, 'truncation': 'disabled', 'usage': us, 'user': None, 'metadata': r.get('metadata') or {}}
        if not r.get('stream'): return self.js(R('completed', output, u))
        ev = []; seq = [0]
        def e(t, **k): k = {'type': t, 'sequence_number': seq[0], **k}; seq[0] += 1; ev.append((t, k))
        e('response.created', response=R('in_progress', [], None)); e('response.in_progress', response=R('in_progress', [], None))
        for oi, it in enumerate(output):
            if it['type'] == 'reasoning':
                e('response.output_item.added', output_index=oi, item={**it, 'summary': []}); s = it['summary'][0]['text']
                e('response.reasoning_summary_part.added', item_id=it['id'], output_index=oi, summary_index=0, part={'type': 'summary_text', 'text': ''})
                for c in chunks(s): e('response.reasoning_summary_text.delta', item_id=it['id'], output_index=oi, summary_index=0, delta=c)
                e('response.reasoning_summary_text.done', item_id=it['id'], output_index=oi, summary_index=0, text=s)
                e('response.reasoning_summary_part.done', item_id=it['id'], output_index=oi, summary_index=0, part={'type': 'summary_text', 'text': s})
            elif it['type'] == 'message':
                e('response.output_item.added', output_index=oi, item={**it, 'status': 'in_progress', 'content': []}); s = it['content'][0]['text']
                e('response.content_part.added', item_id=it['id'], output_index=oi, content_index=0, part={'type': 'output_text', 'text': '', 'annotations': []})
                for c in chunks(s): e('response.output_text.delta', item_id=it['id'], output_index=oi, content_index=0, delta=c, logprobs=[])
                e('response.output_text.done', item_id=it['id'], output_index=oi, content_index=0, text=s, logprobs=[])
                e('response.content_part.done', item_id=it['id'], output_index=oi, content_index=0, part=it['content'][0])
            else:
                e('response.output_item.added', output_index=oi, item={**it, 'status': 'in_progress', 'arguments': ''})
                for c in split(it['arguments']): e('response.function_call_arguments.delta', item_id=it['id'], output_index=oi, delta=c)
                e('response.function_call_arguments.done', item_id=it['id'], output_index=oi, arguments=it['arguments'], name=it['name'])
            e('response.output_item.done', output_index=oi, item=it)
        e('response.completed', response=R('completed', output, u)); self.sse(ev)
    # ---- Anthropic
    def anth(self, r):
        msgs = r.get('messages', [])
        def kinds(m): return [b.get('type') for b in m['content']] if isinstance(m['content'], list) else ['text']
        def real(m): return m['role'] == 'user' and 'tool_result' not in kinds(m) and any(not t.lstrip().startswith('<system-reminder>') for t in ([m['content']] if isinstance(m['content'], str) else [b.get('text', '') for b in m['content']]))
        us = [i for i, m in enumerate(msgs) if real(m)]; li = us[-1] if us else 0
        turns = [int(x) for m in msgs[li:] if isinstance(m['content'], list) for b in m['content'] if b.get('type') == 'tool_result' for x in TURN.findall(b.get('tool_use_id', ''))]
        turn = max(turns) + 1 if turns else 0
        tools = [{'name': t['name'], 'schema': t.get('input_schema') or {}} for t in r.get('tools', []) or []]
        tc = r.get('tool_choice') or {}; force = tc.get('name') if tc.get('type') == 'tool' else None
        of = ((r.get('output_config') or {}).get('format') or r.get('output_format') or {}); schema = of.get('schema')
        conv = {'tools': tools, 'user': txt(msgs[li]['content']) if msgs else '', 'turn': turn, 'schema': schema, 'force': force}
        a = decide(conv); inp, cached, out = usage(turn, a['text'], a['calls']); mid = 'msg_' + h(conv)[:22]; content = []
        if (r.get('thinking') or {}).get('type') in ('enabled', 'adaptive') and tools: content.append({'type': 'thinking', 'thinking': 'I should look at the facts before answering.', 'signature': 'sig' + h(mid)}); out += 12
        if a['text']: content.append({'type': 'text', 'text': a['text']})
        for k, (nm, ar) in enumerate(a['calls']): content.append({'type': 'tool_use', 'id': cid('toolu_', conv, k), 'name': nm, 'input': ar})
        u = {'input_tokens': inp - cached, 'cache_creation_input_tokens': 157 if turn else 1024, 'cache_read_input_tokens': cached, 'output_tokens': out, 'service_tier': 'standard', 'cache_creation': {'ephemeral_5m_input_tokens': 157 if turn else 1024, 'ephemeral_1h_input_tokens': 0}}
        sr = 'tool_use' if a['calls'] else 'end_turn'; m = {'id': mid, 'type': 'message', 'role': 'assistant', 'model': r.get('model'), 'content': content, 'stop_reason': sr, 'stop_sequence': None, 'usage': u}
        if not r.get('stream'): return self.js(m)
        ev = [('message_start', {'type': 'message_start', 'message': {**m, 'content': [], 'stop_reason': None, 'usage': {**u, 'output_tokens': 1}}})]
        for i, b in enumerate(content):
            if b['type'] == 'thinking':
                ev.append(('content_block_start', {'type': 'content_block_start', 'index': i, 'content_block': {'type': 'thinking', 'thinking': '', 'signature': ''}}))
                ev += [('content_block_delta', {'type': 'content_block_delta', 'index': i, 'delta': {'type': 'thinking_delta', 'thinking': c}}) for c in chunks(b['thinking'])]
                ev.append(('content_block_delta', {'type': 'content_block_delta', 'index': i, 'delta': {'type': 'signature_delta', 'signature': b['signature']}}))
            elif b['type'] == 'text':
                ev.append(('content_block_start', {'type': 'content_block_start', 'index': i, 'content_block': {'type': 'text', 'text': ''}}))
                ev += [('content_block_delta', {'type': 'content_block_delta', 'index': i, 'delta': {'type': 'text_delta', 'text': c}}) for c in chunks(b['text'])]
            else:
                ev.append(('content_block_start', {'type': 'content_block_start', 'index': i, 'content_block': {**b, 'input': {}}}))
                ev += [('content_block_delta', {'type': 'content_block_delta', 'index': i, 'delta': {'type': 'input_json_delta', 'partial_json': c}}) for c in split(json.dumps(b['input']))]
            ev.append(('content_block_stop', {'type': 'content_block_stop', 'index': i}))
        ev += [('message_delta', {'type': 'message_delta', 'delta': {'stop_reason': sr, 'stop_sequence': None}, 'usage': {k: v for k, v in u.items() if k.endswith('tokens')}}), ('message_stop', {'type': 'message_stop'})]
        self.sse(ev)
    # ---- Gemini
    def gem(self, r, p):
        cs = r.get('contents', [])
        isu = lambda c: c.get('role', 'user') == 'user' and any('text' in x for x in c['parts']) and not any('functionResponse' in x for x in c['parts'])
        us = [i for i, c in enumerate(cs) if isu(c)]; li = us[-1] if us else 0
        turn = sum(1 for c in cs[li + 1:] if c.get('role') == 'model' and any('functionCall' in x for x in c['parts']))
        tools = [{'name': f['name'], 'schema': f.get('parametersJsonSchema') or f.get('parameters') or {}} for t in r.get('tools', []) or [] for f in t.get('functionDeclarations', [])]
        gc = r.get('generationConfig') or {}; schema = gc.get('responseJsonSchema') or gc.get('responseSchema')
        conv = {'tools': tools, 'user': '\n'.join(x.get('text', '') for x in cs[li]['parts']) if cs else '', 'turn': turn, 'schema': schema, 'force': None}
        a = decide(conv); inp, cached, out = usage(turn, a['text'], a['calls']); parts = []
        if a['text']: parts += [{'text': c} for c in chunks(a['text'])]
        parts += [{'functionCall': {'name': nm, 'args': ar}} for nm, ar in a['calls']]
        u = {'promptTokenCount': inp, 'candidatesTokenCount': out, 'totalTokenCount': inp + out + 16, 'cachedContentTokenCount': cached, 'thoughtsTokenCount': 16}
        model = re.search(r'models/([^:]+):', p); model = model.group(1) if model else 'gemini'
        mk = lambda ps, fin, last: {'candidates': [{'content': {'role': 'model', 'parts': ps}, 'index': 0, **({'finishReason': 'STOP'} if fin else {})}], 'modelVersion': model, 'responseId': h(conv)[:20], **({'usageMetadata': u} if last else {})}
        if ':generateContent' in p: return self.js(mk(parts, True, True))
        self.sse([(None, mk([x], i == len(parts) - 1, i == len(parts) - 1)) for i, x in enumerate(parts)])
if __name__ == '__main__': ThreadingHTTPServer(('127.0.0.1', int(__import__('os').environ.get('FAKE_PORT', '18080'))), H).serve_forever()
