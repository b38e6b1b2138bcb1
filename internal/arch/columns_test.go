package arch

import (
	"go/scanner"
	"go/token"
	"strings"
	"unicode/utf8"
)

// checkColumns finds lines that are too wide. A line may be as wide as a string needs that begins
// before the limit, with what closes behind it, and as a directive or code in a comment needs.
func checkColumns(tr *tree, r *report) {
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			checkFileColumns(r, f)
		}
	}
}

func checkFileColumns(r *report, f *file) {
	at := r.fset.File(f.ast.Pos())
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(f.path, -1, len(f.src)), f.src, nil, scanner.ScanComments)
	reported := 0
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return
		}
		begin := int(pos) - 1
		if mayBeWide(tok, text) || tok == token.STRING && columns(at, f.src, begin) < maxColumns {
			continue
		}
		if !tok.IsLiteral() && tok != token.COMMENT {
			text = tok.String()
		}
		line := at.Line(at.Pos(begin))
		if line != reported && columns(at, f.src, begin+len(text)) > maxColumns {
			r.add(at.Pos(begin), "wider than %d columns: break the line", maxColumns)
			reported = line
		}
	}
}

// mayBeWide says whether a token may be beyond the limit: what closes, or goes on, behind a string,
// directives, and code in comments.
func mayBeWide(tok token.Token, text string) bool {
	switch tok {
	case token.RPAREN, token.RBRACE, token.RBRACK, token.COMMA, token.SEMICOLON, token.LBRACE, token.COLON, token.ADD:
		return true
	case token.COMMENT:
		return strings.HasPrefix(text, "//go:") || strings.HasPrefix(text, "//nolint") ||
			strings.HasPrefix(text, "//\t")
	default:
		return false
	}
}

// columns is the width of the line with an offset of a file, up to there.
func columns(at *token.File, src []byte, offset int) int {
	line := string(src[at.Offset(at.LineStart(at.Line(at.Pos(offset)))):offset])
	return utf8.RuneCountInString(line) + (tabWidth-1)*strings.Count(line, "\t")
}
