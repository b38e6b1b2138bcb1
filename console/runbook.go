package console

import (
	"io/fs"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/docs/runbook"
)

func runbookPages() []page {
	return []page{
		{path: "/runbook", file: "runbook", nav: "Runbook", key: "b", show: runbookPage},
		{path: "/runbook/{name}", file: "runbook", show: runbookPage},
	}
}

// block is a part of a page of the runbook: a heading, a paragraph, a table or an example.
type block struct {
	Level int // of a heading
	Text  []words
	Code  string
	Rows  [][][]words // the first is the head
	Item  bool        // of a list
}

// words are a piece of text.
type words struct {
	Text string
	Code bool
	Bold bool
	Page string // of the runbook, to which it leads
}

var (
	inline = regexp.MustCompile("`([^`]+)`|\\*\\*([^*]+)\\*\\*|\\[([^\\]]+)\\]\\(([^)]+)\\)")
	toPage = regexp.MustCompile(`^(Pawl\w+|README)\.md`)
)

func wordsOf(text string) (all []words) {
	for text != "" {
		at := inline.FindStringSubmatchIndex(text)
		if at == nil {
			return append(all, words{Text: text})
		}
		if at[0] > 0 {
			all = append(all, words{Text: text[:at[0]]})
		}
		part := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return text[at[2*n]:at[2*n+1]]
		}
		switch {
		case part(1) != "":
			all = append(all, words{Text: part(1), Code: true})
		case part(2) != "":
			all = append(all, words{Text: part(2), Bold: true})
		default:
			w := words{Text: strings.Trim(part(3), "`")}
			if m := toPage.FindStringSubmatch(part(4)); m != nil {
				w.Page = m[1]
			}
			all = append(all, w)
		}
		text = text[at[1]:]
	}
	return all
}

// blocks reads the Markdown that the runbook is written in.
func blocks(markdown string) (all []block) {
	var text []string
	item := false
	end := func() {
		if len(text) > 0 {
			all = append(all, block{Text: wordsOf(strings.Join(text, " ")), Item: item})
		}
		text, item = nil, false
	}
	lines := strings.Split(markdown, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		level := len(line) - len(strings.TrimLeft(line, "#"))
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			from := i + 1
			for i++; i < len(lines) && !strings.HasPrefix(lines[i], "```"); i++ {
			}
			all = append(all, block{Code: strings.Join(lines[from:i], "\n")})
		case level > 0:
			end()
			all = append(all, block{Level: level, Text: wordsOf(strings.TrimSpace(line[level:]))})
		case strings.HasPrefix(line, "|"):
			end()
			var b block
			for ; i < len(lines) && strings.HasPrefix(lines[i], "|"); i++ {
				if !strings.HasPrefix(lines[i], "|--") {
					b.Rows = append(b.Rows, cells(lines[i]))
				}
			}
			i--
			all = append(all, b)
		case strings.HasPrefix(line, "- "):
			end()
			item, text = true, []string{line[2:]}
		case strings.TrimSpace(line) == "":
			end()
		default:
			text = append(text, strings.TrimSpace(line))
		}
	}
	end()
	return all
}

func cells(row string) (all [][]words) {
	const bar = "\x00" // stands for a bar in a cell
	row = strings.ReplaceAll(strings.Trim(strings.TrimSpace(row), "|"), `\|`, bar)
	for cell := range strings.SplitSeq(row, "|") {
		all = append(all, wordsOf(strings.ReplaceAll(strings.TrimSpace(cell), bar, "|")))
	}
	return all
}

// runbookIndex has the meaning of each page, by its name.
var runbookIndex = sync.OnceValue(func() []runbookLine {
	names, err := fs.Glob(runbook.Pages, "Pawl*.md")
	if err != nil {
		panic(err) // the pattern is right
	}
	var all []runbookLine
	for _, name := range names {
		text, err := runbook.Pages.ReadFile(name)
		if err != nil {
			panic(err) // it is in the binary
		}
		line := runbookLine{Name: strings.TrimSuffix(name, ".md")}
		for _, b := range blocks(string(text)) {
			if b.Level == 0 && b.Text != nil {
				line.Meaning = b.Text
				break
			}
		}
		all = append(all, line)
	}
	return all
})

type runbookLine struct {
	Name    string
	Meaning []words
}

type runbookData struct {
	Name   string
	Blocks []block
	Index  []runbookLine
}

func runbookPage(v *view) (any, error) {
	d := runbookData{Name: v.r.PathValue("name")}
	name := d.Name
	if name == "" {
		name, d.Index = "README", runbookIndex()
	}
	text, err := runbook.Pages.ReadFile(name + ".md")
	if err != nil {
		return nil, &api.Problem{Status: http.StatusNotFound, Title: "not found", Detail: v.T("There is no such page.")}
	}
	d.Blocks = blocks(string(text))
	return d, nil
}

// runbooks are links to pages of the runbook.
type runbooks struct {
	V     *view
	Pages []runbookLine
}

// Runbooks are the pages whose names begin with one of some words.
func (v *view) Runbooks(names ...string) runbooks {
	r := runbooks{V: v}
	for _, line := range runbookIndex() {
		for _, name := range names {
			if strings.HasPrefix(line.Name, name) {
				r.Pages = append(r.Pages, line)
				break
			}
		}
	}
	return r
}
