package pdf

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"reflect"
	"testing"
)

// The names of glyphs are found in fonts and encodings that are plain and in those that are compressed.
func TestGlyphs(t *testing.T) {
	const font, encoding = "<</Type/Font/BaseFont/AB+Minion/Encoding 12 0 R>>",
		"<</Type/Encoding/Differences[27/f_f/a/T_h.liga 200/uni00660069/f_z_nobody]>>"
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	index := fmt.Sprintf("11 0 12 %d ", len(font))
	fmt.Fprint(z, index, font, encoding)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	want := glyphs{"AB+Minion": {27: "ff", 29: "Th", 200: "fi"}}
	for _, data := range []string{
		"%PDF-1.5\n11 0 obj\n" + font + "\nendobj\n12 0 obj\n" + encoding + "\nendobj\n",
		fmt.Sprintf("%%PDF-1.5\n9 0 obj <</Type/ObjStm/N 2/First %d/Length %d>>\nstream\r\n%s\nendstream endobj\n",
			len(index), packed.Len(), packed.Bytes()),
		"11 0 obj<</BaseFont/AB+Minion/Encoding" + encoding + ">>endobj",
	} {
		if got := glyphsOf([]byte(data)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v", data, got)
		}
	}
}

func TestSpelled(t *testing.T) {
	for name, want := range map[string]string{
		"T_h": "Th", "f_f_i.alt": "ffi", "longs_t": "ſt", "uni20AC0308": "€\u0308", "u1F600_a": "😀a",
		"g23": "", "f_nobody": "", "uniXYZW": "", ".notdef": "", "": "",
	} {
		if got := spelled(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
