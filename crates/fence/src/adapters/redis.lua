-- Compares, raises the mark and runs the caller's commands, in one step: Redis runs nothing else meanwhile.
--
-- KEYS: the hash of the marks, then the keys that the commands touch.
-- ARGV: field of the mark, token, floor (0: none), then each command as the number of its words and the words.
-- Numbers are exact: tokens are at most 2^53 - 1. They are kept as text, and never compared as text.
if redis.call('HGET', KEYS[1], 'version') ~= 'palisade-marks 1' then
    return {'no marks'}
end
local before = redis.call('HGET', KEYS[1], ARGV[1])
local lowest = tonumber(before or '0')
if lowest == nil then
    return {'damaged'}
end
lowest = math.max(lowest, tonumber(ARGV[3]))
local token = tonumber(ARGV[2])
if token < lowest then
    return {'stale', string.format('%.0f', lowest)}
end
if before ~= ARGV[2] then
    redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
end
local replies = {}
local at = 4
while ARGV[at] do
    local words = tonumber(ARGV[at])
    local reply = redis.pcall(unpack(ARGV, at + 1, at + words))
    if type(reply) == 'table' and reply['err'] then
        return {'failed', reply['err']}
    end
    replies[#replies + 1] = reply
    at = at + words + 1
end
return {'admitted', replies}
