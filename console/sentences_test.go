package console

import (
	"fmt"
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

// TestCommandsSpeakChinese: the catalogue has the columns of what commands of pipelines list. Package cli looks for
// what they say of themselves.
func TestCommandsSpeakChinese(t *testing.T) {
	v, found := &view{Lang: zh}, 0
	each(t, "../pipeline/*/*.go", func(n ast.Node) {
		c, ok := n.(*ast.CompositeLit)
		if !ok || len(c.Elts) < 4 {
			return
		}
		if of, ok := c.Type.(*ast.ArrayType); !ok || fmt.Sprint(of.Elt) != "string" {
			return
		}
		for _, e := range c.Elts {
			column := strings.TrimPrefix(literal(e), ">")
			if column == "" || column != strings.ToUpper(column) || column == strings.ToLower(column) {
				return // it is no head of a table
			}
			if found++; v.Sentence(column) == column {
				t.Errorf("%q has no Chinese", column)
			}
		}
	})
	if found < 40 {
		t.Errorf("only %d columns were found", found)
	}
}

// TestThePolicySpeaksChinese: the catalogue has why the policy decides as it does, and what a plan warns of.
func TestThePolicySpeaksChinese(t *testing.T) {
	v, found := &view{Lang: zh}, 0
	look := func(n ast.Node) {
		f, ok := n.(*ast.FuncDecl)
		if !ok || f.Name.Name != "decide" && f.Name.Name != "warn" {
			return
		}
		for n := range ast.Preorder(f) {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING || strings.HasPrefix(lit.Value, `", `) {
				continue
			}
			text := literal(lit)
			found++
			if v.Sentence(text) == text && v.Sentence(text+": dead letter") == text+": dead letter" {
				t.Errorf("%q has no Chinese", text)
			}
		}
	}
	each(t, "../policy/rule.go", look)
	each(t, "../internal/operate/plan.go", look)
	if found < 13 {
		t.Errorf("only %d sentences were found", found)
	}
	if got := decided(v, "dead: attempt 3 of 3: dead letter"); got != "死信：第 3 次尝试（最多 3 次）：成为死信" {
		t.Error(got)
	}
}

// each looks at what is in files of Go.
func each(t *testing.T, files string, look func(ast.Node)) {
	t.Helper()
	names, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for n := range ast.Preorder(f) {
			look(n)
		}
	}
}

// TestTheDoctorSpeaksChinese: the catalogue has each sentence of package doctor. Commands stay as they are typed.
func TestTheDoctorSpeaksChinese(t *testing.T) {
	v, found := &view{Lang: zh}, 0
	each(t, "../internal/doctor/*.go", func(n ast.Node) {
		c, ok := n.(*ast.CallExpr)
		if !ok {
			return
		}
		from := 2 // say(check, verdict, fix, detail, …)
		switch f, _ := c.Fun.(*ast.SelectorExpr); {
		case f == nil || f.Sel.Name != "say" && f.Sel.Name != "tell":
			return
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
	})
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
