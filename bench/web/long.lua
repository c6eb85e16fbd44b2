-- Requests that compute for milliseconds, in turns.
local paths = { "/page", "/search", "/report" }
local turn = 0

request = function()
  turn = turn % #paths + 1
  return wrk.format("GET", paths[turn])
end
