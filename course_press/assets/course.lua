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

-- Whether two words with a space between them stay on one line.
local function belongs(before, after)
  if before == "×" then return true end
  local group = before:match("^%d+$") and after:match("^%d%d%d%f[%D]")
  return ends_in_digit(before) and (group or starts_like_a_unit(after) or after:match("^10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]")) and true
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
      if belongs(before, after) then inlines[i], changed = pandoc.Str(NBSP), true end
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

-- Long tables of what cells gave, which the embedded engine hands over as they are. Pandoc takes its time for each cell that it
-- reads, walks through and writes, and most hold words, a number or a link: those are set here, and pandoc gets the others alone.

local LONG, WIDE = 500, 80 -- bytes of a table, and letters of its widest line, from where pandoc gives columns a width
local URL = "[%w#:/.%%+=?,_~-]"

-- Whether it may mean more to pandoc, or to a filter, than it says.
local function means_more(text)
  for _, sign in ipairs { "[*_`$@^~\"<>|{}]", "%-%-", "%.%.", "  ", "!%[", "[%d%]][\234-\237]", "^'", "'$", "[^%w]'", "'[^%w]", "&[^#]" } do
    if text:match(sign) then return true end
  end
  if text:match("%f[%a]%a%a?%a?%a?%a?%a?%.[ \u{a0}]") then return true end -- a short word may be an abbreviation, which pandoc keeps the next word beside
  return false
end

local function attributes(text)
  local id, rest = "", " " .. text
  rest = rest:gsub(" #([%w-]+)", function(name) id = (' id="%s"'):format(name) return "" end)
  local other = rest:gsub(' data%-v="[^"&<>]*"', ""):gsub(" lang=%l%l", "")
  return other == "" and id .. rest:gsub(" lang=(%l%l)", ' lang="%1"') or nil
end

local function set_words(text)
  local words, html = pandoc.List {}, ""
  for word in (text:gsub("\\(%p)", "%1") .. " "):gmatch("([^ ]*) ") do words:insert(word) end
  for i, word in ipairs(words) do
    local before, gap = words[i - 1] or "", " "
    if before ~= "" and word ~= "" and belongs(before, word) then gap = NBSP end
    local shown = escaped(word):gsub("&quot;", '"'):gsub(">", "&gt;"):gsub("'", "’")
    if HTML and word:match("^%d%d%d%d%-%d%d%-%d%d$") then shown = '<span class="nowrap">' .. word .. "</span>" end
    html = html .. (i > 1 and gap or "") .. shown
  end
  return html
end

-- A cell as HTML, or nil where pandoc has to read it; where its links lead goes to `links`.
local function set_cell(cell, links)
  cell = cell:gsub("&#(%d+);", function(code) return utf8.char(tonumber(code)) end)
  local read = cell:gsub("\\(%p)", function(mark) return ("\"'`|\\"):find(mark, 1, true) and "`" or "" end)
  if means_more((read:gsub("%](%b())", "]"):gsub("%](%b{})", "]"))) or read:find("\\", 1, true) then return nil end
  local done, at = {}, 1
  while true do
    local open = cell:find("%f[%[\\][%[]", at)
    done[#done + 1] = set_words(cell:sub(at, (open or 0) - 1))
    if not open then return table.concat(done) end
    local label, after = cell:match("^([^%[%]\\]*)%]()", open + 1)
    if not label then return nil end
    local target, behind = cell:match("^%((" .. URL .. "+)%)()", after)
    local given, last = cell:match("^{([^{}]*)}()", behind or after)
    local more = given and attributes(given) or not given and ""
    if not more or not (target or given) then return nil end
    local file, anchor = (target or ""):match("^([^#:]+)%.qmd(#?.*)$")
    target = file and file .. ".html" .. anchor or target
    if file or target and target:match("^#") then links:insert(target) end
    done[#done + 1] = target and ('<a href="%s"%s>%s</a>'):format(target, more, set_words(label)) or ("<span%s>%s</span>"):format(more, set_words(label))
    at = last or behind
  end
end

local function cells_of(line)
  local cells = {}
  for cell in (line:gsub("\\|", "\1"):match("^|(.*|)%s*$") or ""):gmatch("([^|]*)|") do
    cells[#cells + 1] = cell:gsub("\1", "\\|"):match("^%s*(.-)%s*$")
  end
  return cells
end

-- A wide table's head and one row as pandoc writes them, with a mark in place of each cell.
local function frame_of(rule, columns)
  local row = ("| x "):rep(columns) .. "|\n"
  local long = row:gsub("x", ("x"):rep(WIDE), 1)
  local text = pandoc.write(pandoc.read(row .. rule .. "\n" .. long .. row, "markdown"), "html5", { wrap_text = "wrap-none" }):gsub(">x<", ">\1<")
  return text:match("^(.*<tbody>\n)<tr>.-</tr>\n(<tr>.*</tr>\n)</tbody>")
end

local function as_read(text) return pandoc.read(text, "markdown", PANDOC_READER_OPTIONS).blocks:walk { Plain = text_of } end

function RawBlock(raw)
  if raw.format ~= "pipes" then return nil end
  local lines, width = pandoc.List {}, 0
  for line in raw.text:gmatch("[^\n]+") do
    lines:insert(line)
    width = math.max(width, utf8.len((line:gsub(" *| *", ""))))
  end
  if #raw.text < LONG or width <= WIDE then return as_read(raw.text) end
  local rule = lines:remove(2)
  local columns = select(2, rule:gsub("%-+", ""))
  local cells, links, others = pandoc.List {}, pandoc.List {}, {}
  for _, line in ipairs(lines) do
    local row = cells_of(line)
    if #row ~= columns then return as_read(raw.text) end
    for _, cell in ipairs(row) do
      local set = set_cell(cell, links)
      cells:insert(set or false)
      if not set then others[#others + 1] = cell end
    end
  end
  local rows = #others > 0 and as_read("|x|\n|:--|\n|" .. table.concat(others, "|\n|") .. "|\n")[1].bodies[1].body
  local head, row = frame_of(rule, columns)
  local at, read, content, html = 0, 0, pandoc.List {}, {}
  for part in (head .. row:rep(#lines - 1) .. "</tbody>\n</table>"):gmatch("[^\1]+") do
    html[#html + 1], at = part, at + 1
    if cells[at] then
      html[#html + 1] = cells[at]
    elseif cells[at] == false then
      content:insert(pandoc.RawInline("html", table.concat(html)))
      read, html = read + 1, {}
      for _, block in ipairs(rows[read].cells[1].contents) do content:extend(block.content) end
    end
  end
  content:insert(pandoc.RawInline("html", table.concat(html)))
  return pandoc.Div({ pandoc.Plain(content) }, { class = "pipes", links = table.concat(links, " ") })
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
