package plain

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// JSON shows a document, or one document a line, in a block of code: indented, numbers untouched, and characters
// in place of \u references.
func JSON(_ context.Context, d doc.Document) (doc.Markdown, error) {
	text := charset.Decode(d.Data, d.Charset)
	if strings.TrimSpace(text) == "" {
		return doc.Markdown{}, nil
	}
	var out bytes.Buffer
	if err := json.Indent(&out, []byte(text), "", "  "); err != nil {
		out.Reset()
		dec := json.NewDecoder(strings.NewReader(text))
		for dec.More() {
			var line json.RawMessage
			if err := dec.Decode(&line); err != nil {
				return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not JSON: %w", err)
			}
			out.Write(line)
			out.WriteByte('\n')
		}
	}
	var w markdown.Writer
	w.Fence("json", characters(out.String()))
	return doc.Markdown{Text: w.String()}, nil
}

// characters replaces \u references but those of control characters.
func characters(text string) string {
	if !strings.Contains(text, `\u`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		r, size := reference(text[i:])
		if size == 0 {
			b.WriteString(text[i : i+2])
			i++
			continue
		}
		b.WriteRune(r)
		i += size - 1
	}
	return b.String()
}

func reference(text string) (rune, int) {
	unit := func(i int) rune {
		if len(text) < i+6 || text[i:i+2] != `\u` {
			return -1
		}
		n, err := strconv.ParseUint(text[i+2:i+6], 16, 32)
		if err != nil {
			return -1
		}
		return rune(n)
	}
	r := unit(0)
	if utf16.IsSurrogate(r) {
		if r = utf16.DecodeRune(r, unit(6)); r == utf8.RuneError {
			return 0, 0
		}
		return r, 12
	}
	if r < 0x80 {
		return 0, 0
	}
	return r, 6
}

// notebook is a Jupyter notebook, of version 4 or, with worksheets, 3.
type notebook struct {
	Cells      []notebookCell `json:"cells"`
	Worksheets []struct {
		Cells []notebookCell `json:"cells"`
	} `json:"worksheets"`
	Metadata struct {
		Title    string `json:"title"`
		Language struct {
			Name string `json:"name"`
		} `json:"language_info"`
		Kernel struct {
			Language string `json:"language"`
		} `json:"kernelspec"`
	} `json:"metadata"`
}

type notebookCell struct {
	Type   string `json:"cell_type"`
	Level  int    `json:"level"`
	Source lines  `json:"source"`
	Input  lines  `json:"input"`
	// Version 3 says here that the outputs are folded away, version 4 in the metadata, which may be anything.
	Collapsed json.RawMessage `json:"collapsed"`
	Metadata  json.RawMessage `json:"metadata"`
	Outputs   []struct {
		Type      string                     `json:"output_type"`
		Text      lines                      `json:"text"`
		HTML      lines                      `json:"html"` // as version 3 has them
		SVG       lines                      `json:"svg"`
		Latex     lines                      `json:"latex"`
		Data      map[string]json.RawMessage `json:"data"`
		Error     string                     `json:"ename"`
		Value     string                     `json:"evalue"`
		Traceback []string                   `json:"traceback"`
	} `json:"outputs"`
}

// hides reports what Jupyter does not show of a cell.
func (c *notebookCell) hides() (source, outputs bool) {
	var m struct {
		Collapsed bool `json:"collapsed"`
		Jupyter   struct {
			Source  bool `json:"source_hidden"`
			Outputs bool `json:"outputs_hidden"`
		} `json:"jupyter"`
	}
	_ = json.Unmarshal(c.Metadata, &m) // what is of another kind stays false
	return m.Jupyter.Source, string(c.Collapsed) == "true" || m.Collapsed || m.Jupyter.Outputs
}

// lines are a text, or a list of its lines.
type lines string

// UnmarshalJSON reads both.
func (l *lines) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(b, []byte("[")) {
		var list []string
		err := json.Unmarshal(b, &list)
		*l = lines(strings.Join(list, ""))
		return err
	}
	return json.Unmarshal(b, (*string)(l))
}

// colours are the escapes of a terminal.
var colours = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)

// Notebook shows the cells of a Jupyter notebook and what came out of them.
func Notebook(_ context.Context, d doc.Document) (doc.Markdown, error) {
	var n notebook
	if err := json.Unmarshal([]byte(charset.Decode(d.Data, d.Charset)), &n); err != nil {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not a notebook: %w", err)
	}
	for _, s := range n.Worksheets {
		n.Cells = append(n.Cells, s.Cells...)
	}
	language := cmp.Or(n.Metadata.Language.Name, n.Metadata.Kernel.Language, "python")
	var w markdown.Writer
	for _, c := range n.Cells {
		source := string(c.Source + c.Input)
		noSource, noOutputs := c.hides()
		if noSource = noSource && strings.TrimSpace(source) != ""; noSource && !d.Hidden {
			source = ""
		} else if noSource {
			w.Block("*hidden:*")
		}
		switch c.Type {
		case "markdown":
			w.Block(source)
		case "heading":
			w.Title(c.Level, source)
		case "code":
			if strings.TrimSpace(source) != "" {
				w.Fence(language, source)
			}
			if noOutputs && !d.Hidden {
				c.Outputs = nil
			} else if noOutputs && len(c.Outputs) > 0 {
				w.Block("*hidden:*")
			}
			for _, o := range c.Outputs {
				text := string(o.Text)
				if text == "" {
					w.HTML(string(o.HTML+o.SVG), markdown.Options{})
					w.Block(string(o.Latex))
					text = output(&w, o.Data)
				}
				if o.Error != "" {
					text = o.Error + ": " + o.Value
				} else if text == "" {
					text = strings.Join(o.Traceback, "\n")
				}
				if text = colours.ReplaceAllString(text, ""); strings.TrimSpace(text) != "" {
					w.Fence("", text)
				}
			}
		default:
			if strings.TrimSpace(source) != "" {
				w.Fence("", source)
			}
		}
	}
	return doc.Markdown{Text: w.String(), Title: n.Metadata.Title}, nil
}

// output writes what is shown of rich output; what is left to show as it is, is returned.
func output(w *markdown.Writer, data map[string]json.RawMessage) string {
	var text lines
	for _, kind := range []string{"text/markdown", "text/latex", "text/html", "image/svg+xml", "text/plain"} {
		if json.Unmarshal(data[kind], &text) != nil || text == "" {
			continue
		}
		switch kind {
		case "text/plain":
			return string(text)
		case "text/html", "image/svg+xml":
			if at := w.Len(); w.HTML(string(text), markdown.Options{}) == "" && w.Len() == at {
				continue
			}
		default:
			w.Block(string(text))
		}
		return ""
	}
	return string(data["application/json"])
}
