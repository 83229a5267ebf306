"""Clients of a server that will be killed: curators who decide all the time, and remember what was answered."""

import http.client
import json
import random
import threading
import time

TOKEN = "t" * 43
LEASE = 1
"""Seconds of a lease, the least that the server accepts: the proposals of a killed life return soon."""

PAUSE = 0.02
"""Seconds between two looks at the queue: the log of a long life stays short enough to be read at once."""

LOST = (OSError, http.client.HTTPException)
"""What a client sees of a server that is gone."""


class Client:
    """One connection with the token of an account."""

    def __init__(self, address, token=TOKEN, timeout=60):
        self._connection = http.client.HTTPConnection(*address, timeout=timeout)
        self._headers = {"Authorization": f"Bearer {token}"}

    def call(self, method, path, body=None):
        """Status and JSON of the response."""
        content = None if body is None else json.dumps(body)
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        self._connection.request(method, path, content, headers)
        response = self._connection.getresponse()
        return response.status, json.loads(response.read() or "null")

    def get(self, path):
        """The JSON of a response that must be 200."""
        status, answer = self.call("GET", path)
        assert status == 200, (path, status, answer)
        return answer

    def close(self):
        self._connection.close()


class Curator(threading.Thread):
    """Reviews, adds and undoes until the server is gone. `answered` is what it was told is in the log."""

    def __init__(self, address, name, token, seed):
        super().__init__(daemon=True)
        self.client, self.curator = Client(address, token), name
        self.chance = random.Random(seed)
        self.answered, self.refused, self.faults, self.begun = [], 0, [], 0

    def run(self):
        try:
            while True:
                self.step()
                time.sleep(PAUSE)
        except LOST:
            self.client.close()

    def step(self):
        """Decide the proposals in hand, or add a belief where there are none."""
        status, answer = self.client.call("POST", f"/api/v1/review/next?count=3&lease={LEASE}")
        if status != 200:
            self.faults.append(f"review/next: {status} {answer}")
            time.sleep(0.1)
            return
        for proposal in answer["proposals"]:
            verdict = self.chance.choice(("accept", "reject", "reject", "unsure"))
            self.send(f"review/{proposal['id']}/decide", {"verdict": verdict}, verdict, proposal["id"])
        if self.chance.random() < 0.3 or not answer["proposals"]:
            self.begun += 1
            tail = answer["proposals"][0]["tail"] if answer["proposals"] else "0,0"
            belief = {"head": f"{self.curator} {self.begun}", "relation": "near", "tail": tail}
            self.send("beliefs", belief, "add")
        if self.chance.random() < 0.1:
            self.send("review/undo", {}, "undo")

    def send(self, path, body, verdict, proposal=None):
        """Send a decision; one that is answered with 200 counts, 409 and 422 are refusals."""
        status, answer = self.client.call("POST", f"/api/v1/{path}", body)
        if status == 200:
            row = {"decision": answer["decision"], "verdict": verdict, "proposal": proposal, "curator": self.curator}
            self.answered.append(row)
        elif status in (409, 422):
            self.refused += 1
        else:
            self.faults.append(f"{path}: {status} {answer}")
