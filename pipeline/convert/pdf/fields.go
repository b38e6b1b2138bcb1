package pdf

import (
	"math"
	"slices"

	"github.com/klippa-app/go-pdfium/enums"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/structs"
)

const maxFields = 1000 // of a page

// findFields finds the fields of forms on a page, and writes the text of those fields and notes that have no appearance
// in the file.
func (r *reader) findFields(n int) {
	for i := range n {
		a, err := r.FPDFPage_GetAnnot(&requests.FPDFPage_GetAnnot{Page: r.page, Index: i})
		if err != nil {
			continue
		}
		r.handles++
		kind, err := r.FPDFAnnot_GetSubtype(&requests.FPDFAnnot_GetSubtype{Annotation: a.Annotation})
		if err != nil {
			continue
		}
		key := map[enums.FPDF_ANNOTATION_SUBTYPE]string{
			enums.FPDF_ANNOT_SUBTYPE_WIDGET: "V", enums.FPDF_ANNOT_SUBTYPE_FREETEXT: "Contents",
		}[kind.Subtype]
		at, err := r.FPDFAnnot_GetRect(&requests.FPDFAnnot_GetRect{Annotation: a.Annotation})
		if key == "" || err != nil {
			continue
		}
		if kind.Subtype == enums.FPDF_ANNOT_SUBTYPE_WIDGET {
			r.fields = append(r.fields, at.Rect)
		}
		shown, err := r.FPDFAnnot_HasKey(&requests.FPDFAnnot_HasKey{Annotation: a.Annotation, Key: "AP"})
		if err != nil || shown.HasKey {
			continue
		}
		t, err := r.FPDFAnnot_GetValueType(&requests.FPDFAnnot_GetValueType{Annotation: a.Annotation, Key: key})
		if err != nil || t.ValueType != enums.FPDF_OBJECT_TYPE_STRING {
			continue // the state of a button
		}
		v, err := r.FPDFAnnot_GetStringValue(&requests.FPDFAnnot_GetStringValue{Annotation: a.Annotation, Key: key})
		if err == nil && v.Value != "" {
			r.notes = append(r.notes, piece{
				x: float64(at.Rect.Left), end: float64(at.Rect.Right), y: float64(at.Rect.Bottom) + 4, size: 10,
				font: &font{}, object: -1 - i, text: v.Value,
			})
		}
	}
}

// placeFields puts what stands in the fields of forms, which is drawn last, after the words to the left of it.
func (r *reader) placeFields() {
	if len(r.fields) == 0 {
		return
	}
	var values []piece
	r.pieces = slices.DeleteFunc(r.pieces, func(p piece) bool {
		inside := slices.ContainsFunc(r.fields, func(f structs.FPDF_FS_RECTF) bool {
			x, y := float32(p.x+p.end)/2, float32(p.y+p.size/3)
			return x >= f.Left && x <= f.Right && y >= f.Bottom && y <= f.Top
		})
		if inside {
			values = append(values, p)
		}
		return inside
	})
	for _, v := range values[:min(len(values), maxFields)] {
		after := len(r.pieces) - 1
		best := math.Inf(-1)
		for i := range r.pieces {
			if p := &r.pieces[i]; math.Abs(p.y-v.y) < 0.7*v.size && p.end <= v.x+1 && p.end > best {
				after, best = i, p.end
			}
		}
		r.pieces = slices.Insert(r.pieces, after+1, v)
	}
}
