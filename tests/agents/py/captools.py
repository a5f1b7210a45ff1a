"""The tools every scenario offers its agent, and the truth log of what really ran."""
import json, os
SCN = os.environ.get("SCN", "run")
TRUTH = os.environ.get("TRUTH_DIR", "truth"); os.makedirs(TRUTH, exist_ok=True)
def truth(**rec):
    with open(os.path.join(TRUTH, SCN + ".jsonl"), "a") as f: f.write(json.dumps(rec, ensure_ascii=False, default=str) + "\n")
W = {"Paris": {"city": "Paris", "temp_c": 18, "conditions": "light rain"}, "London": {"city": "London", "temp_c": 14, "conditions": "overcast"}}
def get_weather(city: str) -> str:
    """Get the current weather for a city.

    Args:
        city: The name of the city.
    """
    r = json.dumps(W.get(city, {"city": city, "error": "unknown city"}))
    truth(kind="tool", name="get_weather", arguments={"city": city}, result=r)
    return r
def search_docs(query: str, top_k: int = 2) -> str:
    """Search the company documents.

    Args:
        query: What to look for.
        top_k: How many passages to return, at most 2.
    """
    if int(top_k) > 2:
        truth(kind="tool", name="search_docs", arguments={"query": query, "top_k": top_k}, error="ValueError: top_k must be at most 2")
        raise ValueError("top_k must be at most 2")
    r = json.dumps([{"id": "DOC-7", "score": 0.91, "text": "Carry an umbrella when the rain probability exceeds 40%."},
                    {"id": "DOC-3", "score": 0.42, "text": "Travel expenses need approval."}][: int(top_k)])
    truth(kind="tool", name="search_docs", arguments={"query": query, "top_k": top_k}, result=r)
    return r
def book_trip(city: str, day: str) -> str:
    """Book a trip. Needs a human's approval.

    Args:
        city: Where to.
        day: ISO date.
    """
    r = json.dumps({"booking": "BK-1001", "city": city, "day": day})
    truth(kind="tool", name="book_trip", arguments={"city": city, "day": day}, result=r)
    return r
TOOLS = {"get_weather": get_weather, "search_docs": search_docs, "book_trip": book_trip}
SCHEMA = {"get_weather": {"type": "object", "properties": {"city": {"type": "string", "description": "The name of the city."}}, "required": ["city"]},
          "search_docs": {"type": "object", "properties": {"query": {"type": "string"}, "top_k": {"type": "integer"}}, "required": ["query"]}}
DESC = {"get_weather": "Get the current weather for a city.", "search_docs": "Search the company documents."}
OPENAI_TOOLS = [{"type": "function", "function": {"name": n, "description": DESC[n], "parameters": SCHEMA[n]}} for n in SCHEMA]
RESP_TOOLS = [{"type": "function", "name": n, "description": DESC[n], "parameters": SCHEMA[n]} for n in SCHEMA]
ANT_TOOLS = [{"name": n, "description": DESC[n], "input_schema": SCHEMA[n]} for n in SCHEMA]
SYSTEM = "You are a travel weather assistant. Use the tools, then answer in one sentence."
USER = "Do I need an umbrella in Paris today?"
