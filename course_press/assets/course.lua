-- Shared by both engines: the text alternative of a figure reaches the image itself, the cover's headings get their ids,
-- and neither a number and its unit nor a date parts at the end of a line.

local NBSP = "\u{a0}"
local HTML = FORMAT:match("^html")

local function ends_in_digit(text)
  return text:match("%d[%%]?$") or text:match("[⁰¹²³⁴⁵⁶⁷⁸⁹]$") ~= nil and text:match("%d") ~= nil
end

local function starts_like_a_unit(text)
  local unit = text:gsub("[%.,;:!%?%)]+$", "")
  if unit == "%" or unit == "×" or unit:match("^×") then return true end
  unit = unit:gsub("^µ", ""):gsub("/[sB]$", "")
  return unit:match("^[pnmkMGTPE]?i?[sBW]$") or unit:match("^[pnmkMGTPE]?F?L?OP$") or unit:match("^[kMGT]?Hz$")
end

-- Only what has changed goes back to pandoc, which takes time.
local function joined(inlines)
  local texts, changed = {}, false
  for i, inline in ipairs(inlines) do
    local tag = inline.t
    texts[i] = tag == "Str" and inline.text or tag == "Space" and " " or ""
  end
  for i, text in ipairs(texts) do
    local before, after = texts[i - 1], texts[i + 1]
    if text == " " and before and after and before ~= "" and after:match("^%S") then
      local group = before:match("^%d+$") and after:match("^%d%d%d%f[%D]")
      local belongs = ends_in_digit(before) and (group or starts_like_a_unit(after) or after:match("^10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]"))
      if belongs or before == "×" then inlines[i], changed = pandoc.Str(NBSP), true end
    elseif HTML and text:match("^%d%d%d%d%-%d%d%-%d%d$") then
      inlines[i], changed = pandoc.Span({ inlines[i] }, { class = "nowrap" }), true
    end
  end
  return changed and inlines or nil
end

-- So does asking for each of a text's words: first pandoc says the text, and whether anything in it may have to be joined.
local function may_join(text)
  if text:find("× ", 1, true) or HTML and text:match("%d%d%d%d%-%d%d%-%d%d") then return true end
  for at in text:gmatch("[%d%%\128-\255] ()") do
    local after = text:match("^[^ ]+", at) or ""
    if after:match("^%d") or after:match("^[%%×]") then return true end
    if after:gsub("^µ", ""):match("^[pnmkMGTPE]?i?F?[sBWLOH]") then return true end
  end
  return false
end

local function text_of(block) return may_join(pandoc.utils.stringify(block)) and block:walk { Inlines = joined } or nil end
Para, Plain, LineBlock, DefinitionList = text_of, text_of, text_of, text_of

local function escaped(text)
  return (text:gsub("&", "&amp;"):gsub('"', "&quot;"):gsub("<", "&lt;"))
end

-- The cover includes every language's preface, and Quarto reads them all before it leaves out all but one: an id that
-- stood in each would be there three times.
function Header(header)
  header = text_of(header) or header
  if not header.attributes.anchor then return header end
  header.identifier, header.attributes.anchor = header.attributes.anchor, nil
  return header
end

function Div(div)
  local alt = div.identifier:match("^fig%-") and div.attributes["fig-alt"]
  if not alt then return nil end
  return div:walk {
    Image = function(image)
      image.attributes.alt = alt
      return image
    end,
    RawBlock = function(raw)
      if raw.format:match("^html") and raw.text:match("<svg ") and not raw.text:match("<svg [^>]*aria%-label") then
        local label = ('<svg role="img" aria-label="%s" '):format(escaped(alt):gsub("%%", "%%%%"))
        return pandoc.RawBlock("html", (raw.text:gsub("<svg ", label)))
      end
    end,
  }
end
