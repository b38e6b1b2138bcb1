package pdf

import (
	"bytes"
	"compress/zlib"
	"encoding/ascii85"
	"encoding/hex"
	"io"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// file is an open file. Its objects are found by a scan, not by its table of contents, which is often wrong and not
// quicker to read.
type file struct {
	objects map[ref]any
	trailer dict
	left    int // bytes that may still be unpacked
}

const maxUnpacked = 128 << 20

// open finds the objects of a file.
func open(b []byte) (*file, error) {
	start := bytes.Index(b[:min(len(b), 1024)], []byte("%PDF-"))
	if start < 0 {
		return nil, doc.Fail(doc.KindCorrupt, "it is not a PDF file")
	}
	if !bytes.Contains(b[max(0, len(b)-2048):], []byte("startxref")) {
		return nil, doc.Fail(doc.KindCorrupt, "it is cut off: its end is missing")
	}
	f := &file{objects: map[ref]any{}, trailer: dict{}, left: maxUnpacked}
	f.scan(b)
	if err := f.decrypt(); err != nil {
		return nil, err
	}
	if err := f.unpackObjects(); err != nil {
		return nil, err
	}
	return f, nil
}

// scan goes through the file from object to object.
func (f *file) scan(b []byte) {
	length := func(v any) int {
		switch v := v.(type) {
		case float64:
			return int(v)
		case ref:
			if n, ok := f.objects[v].(float64); ok {
				return int(n)
			}
		}
		return -1
	}
	for i := 0; i < len(b); {
		next := bytes.Index(b[i:], []byte("obj"))
		end := i + next
		if next < 0 {
			end = len(b)
		}
		if t := bytes.Index(b[i:end], []byte("trailer")); t >= 0 {
			l := lexer{b: b, i: i + t + len("trailer"), refs: true}
			if d, ok := l.next().(dict); ok {
				f.merge(d)
			}
		}
		if next < 0 {
			return
		}
		i = end + 3
		num, ok := objectNumber(b[:end])
		if !ok {
			continue
		}
		l := lexer{b: b, i: i, refs: true}
		v := l.object(length)
		f.objects[num] = v
		if s, ok := v.(*stream); ok && s.dict["Type"] == name("XRef") {
			f.merge(s.dict)
		}
		i = max(l.i, i)
	}
}

// merge takes what a trailer says; later ones replace earlier ones.
func (f *file) merge(d dict) {
	for _, k := range []name{"Root", "Encrypt", "Info", "ID"} {
		if d[k] != nil {
			f.trailer[k] = d[k]
		}
	}
}

// objectNumber reads "12 0 " backwards.
func objectNumber(b []byte) (ref, bool) {
	const digits, spaces = "0123456789", " \n\r\t\f\x00"
	afterGen := bytes.TrimRight(b, spaces)
	gap := bytes.TrimRight(afterGen, digits)
	afterNum := bytes.TrimRight(gap, spaces)
	num := afterNum[len(bytes.TrimRight(afterNum, digits)):]
	if len(gap) == len(afterGen) || len(afterNum) == len(gap) || len(num) == 0 || len(num) > 9 {
		return 0, false
	}
	n, err := strconv.Atoi(string(num))
	return ref(n), err == nil
}

// unpackObjects reads the objects that are packed in streams.
func (f *file) unpackObjects() error {
	var packed []ref
	for n, v := range f.objects {
		if s, ok := v.(*stream); ok && s.dict["Type"] == name("ObjStm") {
			packed = append(packed, n)
		}
	}
	slices.Sort(packed)
	for _, n := range packed {
		s := f.objects[n].(*stream)
		data, err := f.data(s)
		if err != nil {
			return err
		}
		first, count := int(f.num(s.dict["First"])), int(f.num(s.dict["N"]))
		if first < 0 || first > len(data) {
			continue
		}
		head := lexer{b: data[:first]}
		for range min(count, 1_000_000) {
			num, ok1 := head.next().(float64)
			at, ok2 := head.next().(float64)
			if !ok1 || !ok2 || at < 0 || first+int(at) > len(data) {
				break
			}
			if _, there := f.objects[ref(num)]; !there {
				l := lexer{b: data, i: first + int(at), refs: true}
				f.objects[ref(num)] = l.next()
			}
		}
	}
	return nil
}

// get follows references.
func (f *file) get(v any) any {
	for range 16 {
		r, ok := v.(ref)
		if !ok {
			return v
		}
		v = f.objects[r]
	}
	return nil
}

func (f *file) dict(v any) dict {
	switch v := f.get(v).(type) {
	case dict:
		return v
	case *stream:
		return v.dict
	}
	return nil
}

func (f *file) list(v any) []any  { l, _ := f.get(v).([]any); return l }
func (f *file) num(v any) float64 { n, _ := f.get(v).(float64); return n }
func (f *file) name(v any) name   { n, _ := f.get(v).(name); return n }

// data unpacks a stream. Errors at its end are common, and leave what came before.
func (f *file) data(s *stream) ([]byte, error) {
	b := s.raw
	if s.open != nil {
		b = s.open(b)
	}
	filters, params := f.list(s.dict["Filter"]), f.list(s.dict["DecodeParms"])
	if n := f.name(s.dict["Filter"]); n != "" {
		filters, params = []any{n}, []any{s.dict["DecodeParms"]}
	}
	for i, filter := range filters {
		switch f.name(filter) {
		case "FlateDecode", "Fl":
			z, err := zlib.NewReader(bytes.NewReader(b))
			if err != nil {
				return nil, nil //nolint:nilerr // a stream that cannot be read has no text
			}
			out, _ := io.ReadAll(io.LimitReader(z, int64(f.left)+1))
			if f.left -= len(out); f.left < 0 {
				return nil, doc.Fail(doc.KindTooLarge, "it unpacks to more than %d bytes", maxUnpacked)
			}
			b = out
			if i < len(params) {
				b = f.predicted(b, f.dict(params[i]))
			}
		case "ASCII85Decode", "A85":
			b, _, _ = bytes.Cut(b, []byte("~>"))
			out := make([]byte, len(b))
			n, _, _ := ascii85.Decode(out, b, true)
			b = out[:n]
		case "ASCIIHexDecode", "AHx":
			b, _, _ = bytes.Cut(bytes.Join(bytes.Fields(b), nil), []byte(">"))
			out := make([]byte, len(b)/2+1)
			n, _ := hex.Decode(out, b)
			b = out[:n]
		default:
			return nil, nil
		}
	}
	return b, nil
}

// predicted undoes the filters that PNG has before packing.
func (f *file) predicted(b []byte, p dict) []byte {
	if f.num(p["Predictor"]) < 10 {
		return b
	}
	columns, colors, bits := int(f.num(p["Columns"])), max(int(f.num(p["Colors"])), 1),
		int(f.num(p["BitsPerComponent"]))
	if bits == 0 {
		bits = 8
	}
	size := max(1, colors*bits/8)
	row := (max(columns, 1)*colors*bits + 7) / 8
	if row <= 0 || row > len(b)+1 {
		return b
	}
	var out []byte
	above := make([]byte, row)
	for len(b) > row {
		kind, line := b[0], b[1:row+1]
		b = b[row+1:]
		for i := range line {
			left, corner := byte(0), byte(0)
			if i >= size {
				left, corner = line[i-size], above[i-size]
			}
			switch kind {
			case 1:
				line[i] += left
			case 2:
				line[i] += above[i]
			case 3:
				line[i] += byte((int(left) + int(above[i])) / 2)
			case 4:
				line[i] += paeth(int(left), int(above[i]), int(corner))
			}
		}
		out = append(out, line...)
		above = line
	}
	return out
}

func paeth(a, b, c int) byte {
	abs := func(n int) int { return max(n, -n) }
	pa, pb, pc := abs(b-c), abs(a-c), abs(a+b-2*c)
	switch {
	case pa <= pb && pa <= pc:
		return byte(a)
	case pb <= pc:
		return byte(b)
	}
	return byte(c)
}

// page is one with what it inherits.
type page struct {
	dict
	resources dict
}

const maxPages = 50_000

// pages lists the pages in order.
func (f *file) pages() []page {
	var all []page
	seen := map[ref]bool{}
	var walk func(v any, resources dict, depth int)
	walk = func(v any, resources dict, depth int) {
		if r, ok := v.(ref); ok {
			if seen[r] {
				return
			}
			seen[r] = true
		}
		d := f.dict(v)
		if d == nil || depth > maxDepth || len(all) >= maxPages {
			return
		}
		if r := f.dict(d["Resources"]); r != nil {
			resources = r
		}
		kids := f.list(d["Kids"])
		if kids == nil {
			all = append(all, page{d, resources})
			return
		}
		for _, k := range kids {
			walk(k, resources, depth+1)
		}
	}
	walk(f.dict(f.trailer["Root"])["Pages"], nil, 0)
	return all
}
