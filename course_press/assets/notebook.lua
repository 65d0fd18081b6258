-- A chapter as plain Markdown that Jupyter and Colab show: callouts become quotations, references and labels text.
-- Numbers are not counted again: they come from the site's print of the same chapter.

local stringify = pandoc.utils.stringify
local course, labels

local function is_cell(block) return block.t == "CodeBlock" and block.classes:includes("course-cell") end

local function name_of(id)
  local label = labels[id]
  if not label then error("#" .. id .. " is a label that no page has") end
  if label.number == "" then return label.title end
  return course.words["ui-" .. label.kind] .. "\u{a0}" .. label.number
end

-- A quotation cannot hold a cell, so what stands between cells is quoted and the cells stay where they are.
local function quoted(content, title)
  local done, run = pandoc.List {}, pandoc.List { pandoc.Para { pandoc.Strong(title) } }
  for _, block in ipairs(content) do
    if is_cell(block) then
      if #run > 0 then done:insert(pandoc.BlockQuote(run)) end
      done:insert(block)
      run = pandoc.List {}
    else
      run:insert(block)
    end
  end
  if #run > 0 then done:insert(pandoc.BlockQuote(run)) end
  return done
end

local function left_out(element)
  local here = { profile = course.profile, format = "html", meta = course.published and "published" or "" }
  for name, value in pairs(element.attributes) do
    local same = value == here[name:match("^%a+%-(%a+)$") or ""]
    if name:match("^unless") then same = not same end
    if element.classes:includes("content-visible") and not same then return true end
    if element.classes:includes("content-hidden") and same then return true end
  end
end

local function div(element)
  if element.classes:includes("answer") or left_out(element) then return {} end
  local content = element.content
  local kind = element.identifier:match("^(%a+)%-")
  if kind == "fig" or kind == "tbl" or kind == "lst" then
    local caption = content:remove()
    local text = pandoc.List { pandoc.Strong { pandoc.Str(name_of(element.identifier) .. ".") }, pandoc.Space() }
    text:extend(caption.content)
    content:insert(pandoc.Para(text))
    return content
  end
  for _, class in ipairs(element.classes) do
    local flavour = class:match("^callout%-(%a+)$")
    if flavour then
      local title = element.attributes.title
      title = title and pandoc.utils.blocks_to_inlines(pandoc.read(title, "markdown").blocks)
      if not title and content[1] and content[1].t == "Header" then title = content:remove(1).content end
      return quoted(content, title or pandoc.Inlines(course.words["ui-" .. flavour]))
    end
    if class == "column-margin" or class == "aside" then return { pandoc.BlockQuote(content) } end
    if class == "panel-tabset" then
      return content:map(function(block) return block.t == "Header" and pandoc.Para { pandoc.Strong(block.content) } or block end)
    end
  end
  return content
end

local function header(element)
  local label = labels[element.identifier]
  if label and label.number ~= "" then
    element.content:insert(1, pandoc.Space())
    element.content:insert(1, pandoc.Str(label.number))
  end
  element.attr = pandoc.Attr()
  return element
end

-- {#eq-x} after display maths becomes the number inside the formula.
local function inlines(list)
  for i = #list, 2, -1 do
    local id = list[i].t == "Str" and list[i].text:match("^{#(eq%-[%w_-]+)}$")
    local before = list[i - 1]
    if before.t == "Space" or before.t == "SoftBreak" then before = list[i - 2] end
    if id and before and before.t == "Math" then
      before.text = before.text .. (" \\tag{%s}"):format(labels[id].number)
      list:remove(i)
    end
  end
  return list
end

local function link(element)
  if element.classes:includes("xref") and stringify(element) == "" then error(element.target .. " is a label that no page has") end
  local page = element.target:match("^([^#:]+)%.qmd")
  if page then element.target = page .. ".ipynb" end
  if element.target:match("^#") then return element.content end
  element.attr = pandoc.Attr()
  return element
end

local function note(element)
  local list = pandoc.List { pandoc.Str("(") }
  list:extend(pandoc.utils.blocks_to_inlines(element.content))
  list:insert(pandoc.Str(")"))
  return list
end

function Pandoc(doc)
  course = pandoc.json.decode(stringify(doc.meta.course))
  labels = course.labels
  doc.blocks = doc.blocks
    :walk({ Inlines = inlines, Note = note, Link = link, Header = header })
    :walk({ Div = div, Span = function(span) return (left_out(span) or span.classes:includes("hint")) and {} or span.content end })
  return doc
end
