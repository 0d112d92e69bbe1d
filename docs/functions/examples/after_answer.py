"""
Work that goes on after the answer: the caller does not wait for it.
@payload {"item": "lamp"}
@answer {"taken": "lamp"}
"""


def handler(payload, sdk):
    sdk.wait_until(note, payload["item"], sdk)
    return {"taken": payload["item"]}


def note(item, sdk):
    sdk.db.query("select pg_notify('lamps', %s)", (item,))
