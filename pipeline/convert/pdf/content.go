package pdf

import (
	"context"
	"math"
	"strings"
)

// matrix is [a b c d e f] of the format.
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3], m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// piece is a text that was shown at once: a word, or several.
type piece struct {
	x, y, end float64
	size      float64
	bold      bool
	text      string
	link      string
}

// reader carries out the operators of a page that are about text.
type reader struct {
	*file
	ctx    context.Context
	fonts  map[any]*font // by reference or dictionary
	pieces []piece
	ops    int
}

// state is what q saves and Q brings back.
type state struct {
	ctm                               matrix
	font                              *font
	size, char, word, scale, lead, up float64
}

const (
	maxForms = 12        // forms in forms
	maxOps   = 5_000_000 // of a page
)

// content carries out a content stream.
func (r *reader) content(data []byte, resources dict, ctm matrix, depth int) error {
	s := state{ctm: ctm, scale: 1}
	var stack []state
	tm, line := identity, identity
	l := lexer{b: data}
	var args []any
	arg := func(i int) float64 {
		if i < len(args) {
			n, _ := args[i].(float64)
			return n
		}
		return 0
	}
	str := func(i int) text {
		if i < len(args) {
			t, _ := args[i].(text)
			return t
		}
		return ""
	}
	move := func(x, y float64) {
		line = matrix{1, 0, 0, 1, x, y}.times(line)
		tm = line
	}
	for {
		v := l.next()
		o, ok := v.(op)
		if !ok {
			if len(args) < 64 {
				args = append(args, v)
			}
			continue
		}
		if r.ops++; r.ops&0x3fff == 0 && r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
		if r.ops > maxOps {
			return nil
		}
		switch o {
		case "":
			return nil
		case "q":
			if len(stack) < 1000 {
				stack = append(stack, s)
			}
		case "Q":
			if len(stack) > 0 {
				s, stack = stack[len(stack)-1], stack[:len(stack)-1]
			}
		case "cm":
			s.ctm = matrix{arg(0), arg(1), arg(2), arg(3), arg(4), arg(5)}.times(s.ctm)
		case "BT":
			tm, line = identity, identity
		case "Tf":
			if len(args) > 0 {
				n, _ := args[0].(name)
				s.font, s.size = r.fontOf(resources, n), arg(1)
			}
		case "Tc":
			s.char = arg(0)
		case "Tw":
			s.word = arg(0)
		case "Tz":
			s.scale = arg(0) / 100
		case "TL":
			s.lead = arg(0)
		case "Ts":
			s.up = arg(0)
		case "Td":
			move(arg(0), arg(1))
		case "TD":
			s.lead = -arg(1)
			move(arg(0), arg(1))
		case "Tm":
			line = matrix{arg(0), arg(1), arg(2), arg(3), arg(4), arg(5)}
			tm = line
		case "T*":
			move(0, -s.lead)
		case "Tj":
			r.show(&s, &tm, str(0))
		case "'":
			move(0, -s.lead)
			r.show(&s, &tm, str(0))
		case "\"":
			s.word, s.char = arg(0), arg(1)
			move(0, -s.lead)
			r.show(&s, &tm, str(2))
		case "TJ":
			if len(args) > 0 {
				r.showAll(&s, &tm, args[0])
			}
		case "Do":
			if len(args) > 0 && depth < maxForms {
				n, _ := args[0].(name)
				if err := r.form(resources, n, s.ctm, depth); err != nil {
					return err
				}
			}
		case "BI":
			l.inlineImage()
		}
		args = args[:0]
	}
}

// inlineImage passes over a picture within the stream.
func (l *lexer) inlineImage() {
	for i := l.i; i+2 < len(l.b); i++ {
		if l.b[i] == 'E' && l.b[i+1] == 'I' && isSpace(l.b[i-1]) && isSpace(l.b[i+2]) {
			l.i = i + 2
			return
		}
	}
	l.i = len(l.b)
}

func (r *reader) form(resources dict, n name, ctm matrix, depth int) error {
	s, ok := r.get(r.dict(resources["XObject"])[n]).(*stream)
	if !ok || r.name(s.dict["Subtype"]) != "Form" {
		return nil
	}
	data, err := r.data(s)
	if err != nil {
		return err
	}
	if m := r.list(s.dict["Matrix"]); len(m) == 6 {
		ctm = matrix{r.num(m[0]), r.num(m[1]), r.num(m[2]), r.num(m[3]), r.num(m[4]), r.num(m[5])}.times(ctm)
	}
	if own := r.dict(s.dict["Resources"]); own != nil {
		resources = own
	}
	return r.content(data, resources, ctm, depth+1)
}

func (r *reader) fontOf(resources dict, n name) *font {
	v := r.dict(resources["Font"])[n]
	at, ok := v.(ref)
	if !ok {
		if d := r.dict(v); d != nil {
			return r.file.font(d)
		}
		return nil
	}
	if r.fonts[at] == nil {
		r.fonts[at] = r.file.font(r.dict(v))
	}
	return r.fonts[at]
}

func (r *reader) showAll(s *state, tm *matrix, list any) {
	l, _ := list.([]any)
	for _, v := range l {
		switch v := v.(type) {
		case text:
			r.show(s, tm, v)
		case float64:
			*tm = matrix{1, 0, 0, 1, -v / 1000 * s.size * s.scale, 0}.times(*tm)
		}
	}
}

// show writes a text where the matrix is, and moves on by its width.
func (r *reader) show(s *state, tm *matrix, t text) {
	if s.font == nil {
		return
	}
	at := matrix{1, 0, 0, 1, 0, s.up}.times(*tm).times(s.ctm)
	var b strings.Builder
	width := 0.0
	s.font.show(t, func(chars string, w float64, space bool) {
		b.WriteString(chars)
		width += (w/1000*s.size + s.char) * s.scale
		if space {
			width += s.word * s.scale
		}
	})
	*tm = matrix{1, 0, 0, 1, width, 0}.times(*tm)
	end := matrix{1, 0, 0, 1, 0, s.up}.times(*tm).times(s.ctm)
	size := s.size * math.Hypot(at[2], at[3])
	if size == 0 || b.Len() == 0 {
		return
	}
	r.pieces = append(r.pieces, piece{x: at[4], y: at[5], end: math.Max(end[4], at[4]), size: math.Abs(size), bold: s.font.bold, text: b.String()})
}

// links gives the pieces below links their targets.
func (r *reader) links(p page) {
	for _, v := range r.list(p.dict["Annots"]) {
		a := r.dict(v)
		uri, _ := r.get(r.dict(a["A"])["URI"]).(text)
		rect := r.list(a["Rect"])
		if r.name(a["Subtype"]) != "Link" || uri == "" || len(rect) != 4 {
			continue
		}
		x0, y0, x1, y1 := r.num(rect[0]), r.num(rect[1]), r.num(rect[2]), r.num(rect[3])
		x0, x1, y0, y1 = min(x0, x1), max(x0, x1), min(y0, y1), max(y0, y1)
		for i := range r.pieces {
			q := &r.pieces[i]
			if mid := (q.x + q.end) / 2; mid >= x0 && mid <= x1 && q.y+q.size/3 >= y0 && q.y+q.size/3 <= y1 {
				q.link = string(uri)
			}
		}
	}
}
