"""
Calls two addresses at the same time from an async handler.

@env API_URL={server}
@payload {"cities": ["Oslo", "Rome"]}
@answer {"Oslo": 7, "Rome": 21}
"""
import asyncio
import json
import urllib.parse
import urllib.request


def degrees(base, city):
    url = base + "/weather?" + urllib.parse.urlencode({"city": city})
    with urllib.request.urlopen(url, timeout=5) as response:
        return json.load(response)["degrees"]


async def handler(payload, sdk):
    cities = payload["cities"]
    found = await asyncio.gather(*(asyncio.to_thread(degrees, sdk.env.API_URL, city) for city in cities))
    return dict(zip(cities, found))
