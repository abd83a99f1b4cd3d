-- text.lua: numbers and lists as text. Whole numbers cross as digits, never as 1.7e+12.
local function whole(number)
  return string.format('%.0f', number)
end

-- A number as JSON: digits when whole, else the shortest text that reads back the same to 17 digits.
local function numeral(number)
  if number == math.floor(number) then
    return whole(number)
  end
  return string.format('%.17g', number)
end

-- Figures such as {{'streak', 5}, {'limit', 5}} as one JSON object, in their order.
local function figures(pairs_)
  local parts = {}
  for at, pair in ipairs(pairs_) do
    parts[at] = '"' .. pair[1] .. '":' .. numeral(pair[2])
  end
  return '{' .. table.concat(parts, ',') .. '}'
end
