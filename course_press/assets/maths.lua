-- Formulas as a printer sets them, for both engines: pandoc's MathML takes an asterisk for that of a keyboard, gives
-- arrows between statements no room, and lets a line end between a formula and what belongs to it.

local function spaced(text)
  -- The star of an optimum is the operator U+2217; math.css keeps it clear of its letter.
  text = text:gsub("%^{%*}", "^*"):gsub("%^%*", "^{∗}")
  text = text:gsub("%s*\\iff%f[%A]", "\\;\\Leftrightarrow\\;")
  -- A function's name parts from the number before it, and from an operator over a range.
  for _, name in ipairs { "max", "min", "log", "exp" } do
    text = text:gsub("(%d)%s*\\" .. name .. "%f[%A]", "%1\\,\\" .. name)
    text = text:gsub("(\\sum)%s*\\" .. name .. "%f[%A]", "%1\\,\\" .. name)
    text = text:gsub("(\\" .. name .. ")%s*\\sum%f[%A]", "%1\\,\\sum")
  end
  return text
end

local CLOSES = "^[%.,;:!?%)%]%%]+"

-- What follows a formula without a space stays with it: a stop, a bracket, a particle, a suffix.
function Inlines(inlines)
  local formulas = false
  for i, inline in ipairs(inlines) do
    if inline.t == "Math" then
      inline.text, formulas = spaced(inline.text), true
      inlines[i] = inline
    end
  end
  if not formulas then return nil end
  local done, i = pandoc.List {}, 1
  while i <= #inlines do
    local inline, after = inlines[i], inlines[i + 1]
    local open = inline.t == "Str" and inline.text:match("[%(%[]$") and after and after.t == "Math" and after.mathtype == "InlineMath"
    local formula = open and after or inline
    local rest = inlines[i + (open and 2 or 1)]
    local closed = formula.t == "Math" and formula.mathtype == "InlineMath" and rest and rest.t == "Str"
    if formula.t == "Math" and (open or closed) then
      local kept, text = pandoc.List {}, nil
      if open then
        local before = inline.text:sub(1, -2)
        if before ~= "" then done:insert(pandoc.Str(before)) end
        kept:insert(pandoc.Str(inline.text:sub(-1)))
      end
      kept:insert(formula)
      if closed then
        local stop = rest.text:match(CLOSES) or ""
        -- A long word may break as words do: only what closes the formula stays.
        if utf8.len(rest.text) <= 6 then stop = rest.text end
        text = rest.text:sub(#stop + 1)
        if stop ~= "" then kept:insert(pandoc.Str(stop)) end
      end
      done:insert(#kept > 1 and pandoc.Span(kept, { class = "nowrap" }) or formula)
      if text and text ~= "" then done:insert(pandoc.Str(text)) end
      i = i + 1 + (open and 1 or 0) + (closed and 1 or 0)
    else
      done:insert(inline)
      i = i + 1
    end
  end
  return done
end
