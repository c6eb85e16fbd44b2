/* Lua: its interpreter, string library and collector, by a script that calls, sorts, formats, matches,
 * sieves and sends messages to objects. */
#include "outside.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

/* A function of the round that returns a number. */
static const char script[] =
    "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end\n"
    "local Account = {}\n"
    "Account.__index = Account\n"
    "function Account:deposit(v) self.balance = self.balance + v end\n"
    "return function(round)\n"
    "  local sum = fib(20)\n"
    "  local t = {}\n"
    "  for i = 1, 8000 do t[i] = (i * 7919 + round) % 10007 end\n"
    "  table.sort(t)\n"
    "  sum = sum + t[100]\n"
    "  local s = {}\n"
    "  for i = 1, 2000 do s[#s + 1] = string.format('%d:%s', i + round, ('x'):rep(i % 7)) end\n"
    "  for number in table.concat(s, ','):gmatch('%d+') do sum = sum + #number end\n"
    "  local composite = {}\n"
    "  for i = 2, 5000 do\n"
    "    if not composite[i] then\n"
    "      sum = sum + i\n"
    "      for j = i * 2, 5000, i do composite[j] = true end\n"
    "    end\n"
    "  end\n"
    "  local account = setmetatable({balance = round}, Account)\n"
    "  for i = 1, 15000 do account:deposit(i) end\n"
    "  return sum + account.balance\n"
    "end\n";

int main(int argc, char **argv) {
  uint64_t rounds = suite_rounds(argc, argv, 360), sum = 0;
  lua_State *lua = luaL_newstate();
  expect(lua != NULL, "lua does not begin");
  luaL_openlibs(lua);
  if (luaL_loadstring(lua, script) != LUA_OK || lua_pcall(lua, 0, 1, 0) != LUA_OK)
    expect(0, lua_tostring(lua, -1));
  for (uint64_t r = 0; r < rounds; r++) {
    lua_pushvalue(lua, -1);
    lua_pushinteger(lua, (lua_Integer)r);
    if (lua_pcall(lua, 1, 1, 0) != LUA_OK)
      expect(0, lua_tostring(lua, -1));
    sum = suite_mix(sum, (uint64_t)lua_tointeger(lua, -1));
    lua_pop(lua, 1);
  }
  lua_close(lua);
  return suite_end(sum);
}
