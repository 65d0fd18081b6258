-- Shared by both engines: the text alternative of a figure reaches the image itself, the cover's headings get their ids,
-- and neither a number and its unit nor a date parts at the end of a line.

local NBSP = "\u{a0}"

local function ends_in_digit(text)
  return text:match("%d[%%]?$") or text:match("[⁰¹²³⁴⁵⁶⁷⁸⁹]$") ~= nil and text:match("%d") ~= nil
end

local function starts_like_a_unit(text)
  local unit = text:gsub("[%.,;:!%?%)]+$", "")
  if unit == "%" or unit == "×" or unit:match("^×") then return true end
  unit = unit:gsub("^µ", ""):gsub("/[sB]$", "")
  return unit:match("^[pnmkMGTPE]?i?[sBW]$") or unit:match("^[pnmkMGTPE]?F?L?OP$") or unit:match("^[kMGT]?Hz$")
end

function Inlines(inlines)
  for i = 2, #inlines - 1 do
    local before, gap, after = inlines[i - 1], inlines[i], inlines[i + 1]
    if gap.t == "Space" and before.t == "Str" and after.t == "Str" and ends_in_digit(before.text) then
      local group = before.text:match("^%d+$") and after.text:match("^%d%d%d%f[%D]")
      if group or starts_like_a_unit(after.text) or after.text:match("^10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]") then
        inlines[i] = pandoc.Str(NBSP)
      end
    elseif gap.t == "Space" and before.t == "Str" and before.text == "×" and after.t == "Str" then
      inlines[i] = pandoc.Str(NBSP)
    end
  end
  return inlines
end

function Str(text)
  if FORMAT:match("^html") and text.text:match("^%d%d%d%d%-%d%d%-%d%d$") then
    return pandoc.Span({text}, {class = "nowrap"})
  end
end

local function escaped(text)
  return (text:gsub("&", "&amp;"):gsub('"', "&quot;"):gsub("<", "&lt;"))
end

-- The cover includes every language's preface, and Quarto reads them all before it leaves out all but one: an id that
-- stood in each would be there three times.
function Header(header)
  if not header.attributes.anchor then return nil end
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
