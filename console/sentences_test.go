package console

import (
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/api"
)

// verbs are those of fmt.
var verbs = regexp.MustCompile(`%[.0-9]*[a-z]`)

// literal is what is known of an expression: its literals, and nothing in place of what differs.
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return ""
		}
		return verbs.ReplaceAllString(text, "")
	case *ast.BinaryExpr:
		return literal(e.X) + literal(e.Y)
	case *ast.CallExpr: // advice(err, "…")
		if len(e.Args) == 2 {
			return literal(e.Args[1])
		}
	}
	return ""
}

// TestTheDoctorSpeaksChinese: the catalogue has each sentence of package doctor. Commands stay as they are typed.
func TestTheDoctorSpeaksChinese(t *testing.T) {
	v, found := &view{Lang: zh}, 0
	look := func(n ast.Node) bool {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		from := 2 // say(check, verdict, fix, detail, …)
		switch f, _ := c.Fun.(*ast.SelectorExpr); {
		case f == nil || f.Sel.Name != "say" && f.Sel.Name != "tell":
			return true
		case f.Sel.Name == "tell": // a page of the runbook is before them
			from++
		}
		for _, e := range c.Args[from : from+2] {
			text := literal(e)
			if len(strings.Fields(text)) < 2 || strings.HasPrefix(text, "pawl ") || strings.HasPrefix(text, ";") {
				continue
			}
			if found++; v.Sentence(text) == text {
				t.Errorf("%q has no Chinese", text)
			}
		}
		return true
	}
	names, err := filepath.Glob("../internal/doctor/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, look)
	}
	if found < 40 {
		t.Errorf("only %d sentences were found", found)
	}
	for said, want := range map[string]string{
		"7 dead letters": "7 条死信",
		`2 waiting behind message m1 of the key "k", which is retried at 22:00 UTC: no = picture`: `2 条排在键 "k" 的消息 m1 之后，` +
			`后者将于 22:00 UTC: no = picture 重试`,
		"what nobody has translated": "what nobody has translated",
	} {
		if got := v.Sentence(said); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
	r := newRig(t, nil)
	q := r.as(secretOf(api.Viewer), http.MethodGet, "/console/messages/none", nil)
	q.Header.Set("Accept-Language", "zh-CN")
	if _, page := r.do(q); !strings.Contains(page, "<h1>未找到</h1>") || !strings.Contains(page, "未知：已确认，或从未在这里") {
		t.Errorf("a problem:\n%s", page)
	}
	for sentence, words := range sentences() {
		n := len(regexp.MustCompile(`%(\[\d\])?s`).FindAllString(words, -1))
		if n != sentence.NumSubexp() {
			t.Errorf("%s: it is about %d things, its Chinese about %d", sentence, sentence.NumSubexp(), n)
		}
	}
}
