-- JSON, sent back.
wrk.method = "POST"
wrk.path = "/echo"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"items": [1, 2, 3], "name": "something short"}'
