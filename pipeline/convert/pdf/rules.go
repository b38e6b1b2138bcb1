package pdf

import (
	"context"
	"math"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
)

// matrix is [a b c d e f] of the format.
type matrix [6]float64

func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3], m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func (m matrix) at(x, y float64) (float64, float64) {
	return m[0]*x + m[2]*y + m[4], m[1]*x + m[3]*y + m[5]
}

const (
	maxObjects  = 10_000 // of a page, and segments of its paths; one with more is a drawing
	maxForms    = 12     // forms in forms
	maxSegments = 200    // of a path
)

// readRules reads the straight lines of a page. A drawing has too many to be tables, and leaves none.
func (r *reader) readRules() error {
	n, err := r.FPDFPage_CountObjects(&requests.FPDFPage_CountObjects{Page: r.page})
	if err != nil {
		return nil //nolint:nilerr // a page without objects has no rules
	}
	left := maxObjects
	for i := range n.Count {
		o, err := r.FPDFPage_GetObject(&requests.FPDFPage_GetObject{Page: r.page, Index: i})
		if err != nil {
			break
		}
		r.object(o.PageObject, matrix{1, 0, 0, 1, 0, 0}, 0, &left)
		if left < 0 || len(r.rules) > maxRules {
			r.rules = nil
			break
		}
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
	}
	return nil
}

// object reads the rules of an object, which a form has several of. It counts down what is left to look at.
func (r *reader) object(o references.FPDF_PAGEOBJECT, outer matrix, depth int, left *int) {
	r.handles++
	*left--
	t, err := r.FPDFPageObj_GetType(&requests.FPDFPageObj_GetType{PageObject: o})
	if err != nil || t.Type != enums.FPDF_PAGEOBJ_PATH && t.Type != enums.FPDF_PAGEOBJ_FORM {
		return
	}
	m, err := r.FPDFPageObj_GetMatrix(&requests.FPDFPageObj_GetMatrix{PageObject: o})
	if err != nil {
		return
	}
	own := matrix{float64(m.Matrix.A), float64(m.Matrix.B), float64(m.Matrix.C), float64(m.Matrix.D),
		float64(m.Matrix.E), float64(m.Matrix.F)}.times(outer)
	if t.Type == enums.FPDF_PAGEOBJ_PATH {
		r.path(o, own, left)
		return
	}
	n, err := r.FPDFFormObj_CountObjects(&requests.FPDFFormObj_CountObjects{PageObject: o})
	if err != nil || depth >= maxForms {
		return
	}
	for i := range n.Count {
		kid, err := r.FPDFFormObj_GetObject(&requests.FPDFFormObj_GetObject{PageObject: o, Index: uint64(i)})
		if err != nil || *left < 0 || r.ctx.Err() != nil {
			return
		}
		r.object(kid.PageObject, own, depth+1, left)
	}
}

// path reads the rules of a path: its lines if they are drawn, and its areas that are as thin as a line.
func (r *reader) path(o references.FPDF_PAGEOBJECT, m matrix, left *int) {
	mode, err := r.FPDFPath_GetDrawMode(&requests.FPDFPath_GetDrawMode{PageObject: o})
	if err != nil || !mode.Stroke && mode.FillMode == enums.FPDF_FILLMODE_NONE {
		return
	}
	n, err := r.FPDFPath_CountSegments(&requests.FPDFPath_CountSegments{PageObject: o})
	if err != nil || n.Count > maxSegments {
		return
	}
	*left -= n.Count
	var drawn []rule
	var startX, startY, x, y float64
	var area rule // of the part of the path so far
	thin := func() bool { return area.x1-area.x0 <= thick || area.y1-area.y0 <= thick }
	begun := false
	for i := range n.Count {
		s, err := r.FPDFPath_GetPathSegment(&requests.FPDFPath_GetPathSegment{PageObject: o, Index: i})
		if err != nil {
			return
		}
		r.handles++
		ref := s.PathSegment
		at, err := r.FPDFPathSegment_GetPoint(&requests.FPDFPathSegment_GetPoint{PathSegment: ref})
		if err != nil {
			return
		}
		kind, err := r.FPDFPathSegment_GetType(&requests.FPDFPathSegment_GetType{PathSegment: ref})
		if err != nil {
			return
		}
		toX, toY := m.at(float64(at.X), float64(at.Y))
		switch kind.Type {
		case enums.FPDF_SEGMENT_MOVETO:
			if begun && !mode.Stroke && !thin() {
				return // an area that is no rule
			}
			startX, startY, area, begun = toX, toY, rule{toX, toY, toX, toY}, true
		case enums.FPDF_SEGMENT_LINETO:
			drawn = append(drawn, rule{min(x, toX), min(y, toY), max(x, toX), max(y, toY)})
		}
		area = rule{min(area.x0, toX), min(area.y0, toY), max(area.x1, toX), max(area.y1, toY)}
		x, y = toX, toY
		end, err := r.FPDFPathSegment_GetClose(&requests.FPDFPathSegment_GetClose{PathSegment: ref})
		if err == nil && end.IsClose {
			drawn = append(drawn, rule{min(x, startX), min(y, startY), max(x, startX), max(y, startY)})
			x, y = startX, startY
		}
	}
	if begun && !mode.Stroke && !thin() {
		return
	}
	for _, d := range drawn {
		if (d.x1-d.x0 <= thick) != (d.y1-d.y0 <= thick) && !math.IsNaN(d.x0+d.x1+d.y0+d.y1) {
			r.rules = append(r.rules, d)
		}
	}
}
