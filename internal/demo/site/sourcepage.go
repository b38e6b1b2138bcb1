package site

import (
	"go/scanner"
	"go/token"
	"strconv"
	"strings"
)

// sourceSheet renders a source file: each line has the id L and its number.
// Comments, strings and keywords are told apart, and imports are links.
func sourceSheet(c *catalogue, p *page, text []byte) sheet {
	w := &sourceWriter{catalogue: c}
	w.tags("<h1>")
	w.text(p.name)
	w.tags("</h1>\n")
	w.declared(p)
	w.tags("<pre class=\"source\"><span id=\"L1\">")
	w.line = 1
	w.scan(text)
	w.tags("</span></pre>\n")
	return w.sheet(p.name+" – "+p.volume.path, "Source file "+p.volume.path+"/"+p.name+".")
}

// A sourceWriter writes the text of one file.
type sourceWriter struct {
	markup
	catalogue *catalogue
	line      int
}

// declared lists the pages of what the file declares.
func (w *sourceWriter) declared(p *page) {
	m := w.catalogue.members[p.volume]
	w.tags("<p class=\"row\">Package ")
	w.link(w.catalogue.packageHref(p.volume.path), p.volume.path)
	for _, e := range m.entries {
		if e.file != p.name {
			continue
		}
		w.tags(" ")
		w.link(e.path, e.name)
	}
	w.tags("</p>\n")
}

// scan writes the file token by token. What is no comment, string or keyword
// waits and is written in one piece with what is around it.
func (w *sourceWriter) scan(text []byte) {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(text))
	s.Init(file, text, nil, scanner.ScanComments)
	all, at, importing := string(text), 0, false
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		element := elementOf(tok)
		if element == "" {
			continue
		}
		from := file.Offset(pos)
		// The literal may be shorter than the text, as the scanner drops
		// carriage returns; the rest is then written as plain text.
		to := min(from+len(literal), len(all))
		w.lines("", all[at:from])
		at = to
		if tok == token.STRING && importing {
			w.imported(all[from:to])
			continue
		}
		if tok.IsKeyword() {
			importing = tok == token.IMPORT
		}
		w.lines(element, all[from:to])
	}
	w.lines("", all[at:])
}

// elementOf returns the element that a token is shown in, or "".
func elementOf(tok token.Token) string {
	switch {
	case tok == token.COMMENT:
		return "i"
	case tok == token.STRING, tok == token.CHAR:
		return "u"
	case tok.IsKeyword():
		return "b"
	}
	return ""
}

// imported writes an import path, with a link if the package has a page.
func (w *sourceWriter) imported(literal string) {
	href := ""
	if path, err := strconv.Unquote(literal); err == nil {
		href = w.catalogue.packageHref(path)
	}
	w.link(href, literal)
}

// lines writes text in an element, if one is named. At the end of a line the
// elements are closed and begun anew: they may not overlap.
func (w *sourceWriter) lines(element, text string) {
	for {
		line, rest, more := strings.Cut(text, "\n")
		if element != "" && line != "" {
			w.tags("<", element, ">")
			w.text(line)
			w.tags("</", element, ">")
		} else {
			w.text(line)
		}
		if !more {
			return
		}
		w.line++
		w.tags("\n</span><span id=\"L", strconv.Itoa(w.line), "\">")
		text = rest
	}
}
