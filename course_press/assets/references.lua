-- Shared by both engines: what a reference to a figure, an equation or a section says, and which form a Korean particle takes
-- after it or after a number. Quarto resolves references when every filter has run: the press then runs this one over them.

local stringify = pandoc.utils.stringify
local NBSP = "\u{a0}"
local KINDS = { fig = true, tbl = true, lst = true, eq = true, sec = true }

-- References, where the press has said what each label is called.

local function called(citation, course)
  local label = course.labels[citation.id]
  if not label then return "" end -- the press knows which line to blame
  if label.number == "" then return label.title end
  return citation.mode == "SuppressAuthor" and label.number or course.words["ui-" .. label.kind] .. NBSP .. label.number
end

local function resolved(cite, course)
  local known = pandoc.List(cite.citations):filter(function(one) return KINDS[one.id:match("^(%a+)%-")] end)
  if #known == 0 then return nil end
  if #known < #cite.citations then error("cross-references and citations cannot share brackets: " .. stringify(cite)) end
  local list = pandoc.List {}
  for i, citation in ipairs(known) do
    if i > 1 then list:extend { pandoc.Str(","), pandoc.Space() } end
    if #citation.prefix > 0 then
      list:extend(citation.prefix)
      list:insert(pandoc.Space())
    end
    list:insert(pandoc.Link({ pandoc.Str(called(citation, course)) }, "#" .. citation.id, "", { class = "xref" }))
    list:extend(citation.suffix)
  end
  return list
end

-- Korean: what a word ends in when it is read aloud. "" is a vowel, "l" is ㄹ, which 으로 takes for a vowel, "c" any other consonant.

local DIGITS = { ["0"] = "c", ["1"] = "l", ["2"] = "", ["3"] = "c", ["4"] = "", ["5"] = "", ["6"] = "c", ["7"] = "l", ["8"] = "l", ["9"] = "" }

local function end_of_number(text)
  local whole, decimals = text:gsub(",", ""):match("(%d+)(%.?%d*)$")
  local zeros = #whole:match("0*$")
  if #decimals > 1 or zeros == 0 or zeros == #whole then return DIGITS[text:sub(-1)] end
  return zeros >= 12 and zeros < 16 and "" or "c" -- 십 백 천, 만, 억, 조, 경
end

local function end_of(text)
  if text:match("%d%)?$") then return end_of_number((text:gsub("%)$", ""))) end
  local last = utf8.offset(text, -1)
  local code = last and utf8.codepoint(text, last) or 0
  if code < 0xAC00 or code > 0xD7A3 then return nil end
  local coda = (code - 0xAC00) % 28
  return coda == 0 and "" or coda == 8 and "l" or "c"
end

-- Every form of a particle: that after a consonant, that after a vowel, and whether ㄹ counts as one.
local PARTICLES = {}
for after_consonant, rest in pairs {
  ["은"] = { "는" }, ["이"] = { "가" }, ["을"] = { "를" }, ["이다"] = { "다" }, ["이나"] = { "나" },
  ["과"] = { "와", "는", "도", "만", "의" },
  ["이라"] = { "라", "고", "는", "도", "면", "서" },
  ["으로"] = { "로", "는", "도", "만", "의", "서", "써", "부터" },
} do
  for i, more in ipairs(rest) do
    local ending = i > 1 and more or ""
    local forms = { after_consonant .. ending, rest[1] .. ending, after_consonant == "으로" }
    PARTICLES[forms[1]], PARTICLES[forms[2]] = forms, forms
  end
end

-- The text, which begins with a particle, with its right form after what has been read; nil where it does not begin with one.
local function agreeing(text, ends, last)
  local length = 0
  for at, code in utf8.codes(text) do
    if code < 0xAC00 or code > 0xD7A3 then break end
    length = at + 2
  end
  local forms, rest = PARTICLES[text:sub(1, length)], text:sub(length + 1)
  if not ends or not forms then return nil end
  -- What goes on in the same word may be no particle.
  local over = rest == "" and last or rest:match("^%p") or rest:match("^" .. NBSP) or rest:match("^\226\128") or rest:match("^\227\128")
  if not over then return nil end
  return forms[(ends == "" or forms[3] and ends == "l") and 2 or 1] .. rest
end

local function is_gap(inline)
  return not inline or inline.t == "Space" or inline.t == "SoftBreak" or inline.t == "LineBreak"
    or inline.t == "Str" and inline.text:sub(1, #NBSP) == NBSP
end

local function is_reference(inline)
  return inline.t == "Link" and (inline.classes:includes("xref") or inline.classes:includes("quarto-xref"))
end

local HOLDS_NUMBER = { Strong = true, Emph = true, Span = true, Math = true }

-- Signs may stand before a number; a letter would make it a name, which may be read in another way.
local function is_bare(text)
  for _, sign in ipairs { "×", "≈", "≤", "≥", "−", "–", "“", "‘" } do text = text:gsub(sign, "") end
  return text:match("^[%p%d]*%d$")
end

-- Only what has changed goes back to pandoc, which takes time.
local function korean(inlines)
  local changed = false
  for i, inline in ipairs(inlines) do
    local before = inlines[i - 1]
    if is_reference(inline) then
      local text = stringify(inline)
      for _, noun in ipairs { "절", "장" } do
        local number = text:match("^" .. noun .. "[%s\194\160]+([%d.]+)$")
        if number then inline.content, inlines[i], changed = { pandoc.Str(number .. noun) }, inline, true end
      end
    elseif inline.t == "Str" then
      local text, last = inline.text, is_gap(inlines[i + 1]) or inlines[i + 1].t == "Note"
      local number, rest = text:match("^(.-%d)([\234-\237].*)$")
      local said
      if number and is_gap(before) and is_bare(number) then
        said = agreeing(rest, end_of(number), last)
        said = said and number .. said
      elseif before and (is_reference(before) or HOLDS_NUMBER[before.t] and is_bare(stringify(before))) then
        said = agreeing(text, end_of(stringify(before)), last)
      end
      if said then inline.text, inlines[i], changed = said, inline, true end
    end
  end
  return changed and inlines or nil
end

function Pandoc(doc)
  local course = not quarto and doc.meta.course and pandoc.json.decode(stringify(doc.meta.course))
  if course then doc.blocks = doc.blocks:walk { Cite = function(cite) return resolved(cite, course) end } end
  if stringify(doc.meta.lang or "") == "ko" then doc.blocks = doc.blocks:walk { Inlines = korean } end
  return doc
end
