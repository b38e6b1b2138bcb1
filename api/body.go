package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/wire"
)

// budget bounds the bytes of all bodies that are being read or worked on.
type budget struct {
	mu   sync.Mutex
	most int64
	used int64
	left int64 // what was given back since it was collected
}

// take takes n bytes. A body that is alone may be of any size that a request may have.
func (b *budget) take(n, have int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used+n > b.most && b.used > have {
		return false
	}
	b.used += n
	return true
}

// give gives bytes back. What large bodies leave behind is collected before others come: it would be as much again.
func (b *budget) give(n int64) {
	b.mu.Lock()
	b.used -= n
	b.left += n
	collect := b.left > b.most/4
	if collect {
		b.left = 0
	}
	b.mu.Unlock()
	if collect {
		runtime.GC()
	}
}

// body reads the body of a request, unpacked.
func (x *exchange) body() ([]byte, error) {
	r := x.r
	if r.ContentLength > MaxBody {
		return nil, tooLarge("a request has at most " + strconv.Itoa(MaxBody) + " bytes")
	}
	var from io.Reader = &progress{x, r.Body}
	most := MaxBody + 1 // one more shows that it is too large
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		if r.ContentLength >= 0 {
			most = int(r.ContentLength) + 1
		}
	case "gzip":
		unpacked, err := gzip.NewReader(from)
		if err != nil {
			return nil, x.unread(err)
		}
		from = unpacked
	default:
		return nil, unsupported("Content-Encoding is " + strconv.Quote(encoding) + "; it is gzip or none")
	}
	var data []byte
	for {
		if len(data) == cap(data) {
			room := min(max(2*cap(data), 64<<10), most)
			if most <= MaxBody && cap(data) >= most/8 { // much of it has come: the rest will, too
				room = most
			}
			if err := x.hold(int64(room - cap(data))); err != nil {
				return nil, err
			}
			if cap(data) > MaxBody/8 {
				runtime.GC() // smaller buffers of this body
			}
			data = append(make([]byte, 0, room), data...)
		}
		n, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case len(data) > MaxBody:
			return nil, tooLarge("a request has at most " + strconv.Itoa(MaxBody) + " bytes")
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, x.unread(err)
		}
	}
}

// hold takes n more bytes of the budget, until the request ends.
func (x *exchange) hold(n int64) error {
	if !x.api.bodies.take(n, x.held) {
		return &Problem{Status: http.StatusServiceUnavailable, Title: "too many bodies at once",
			Detail: "other requests have all the room that there is for bodies", after: time.Second}
	}
	x.held += n
	return nil
}

// unread is why a body could not be read.
func (x *exchange) unread(err error) error {
	if timeout, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && timeout.Timeout() {
		return &Problem{Status: http.StatusRequestTimeout, Title: "too slow", Detail: "the body did not go on for 30 s"}
	}
	return malformed("the body cannot be read: " + err.Error())
}

// progress reads a body that has to go on.
type progress struct {
	*exchange
	from io.Reader
}

func (p *progress) Read(b []byte) (int, error) {
	_ = p.control.SetReadDeadline(time.Now().Add(stallTime)) // where there is none, it does without
	return p.from.Read(b)
}

// read reads a JSON body into v, a pointer to a struct.
func (x *exchange) read(v any) error {
	if kind, _, _ := mime.ParseMediaType(x.r.Header.Get("Content-Type")); kind != jsonType {
		return unsupported("Content-Type is " + strconv.Quote(x.r.Header.Get("Content-Type")) + "; it is " + jsonType)
	}
	data, err := x.body()
	if err != nil {
		return err
	}
	return x.take(data, v)
}

// readOptional is read for a body that may be left out.
func (x *exchange) readOptional(v any) error {
	data, err := x.body()
	if err != nil {
		return err
	}
	if len(data) == 0 {
		data = []byte("{}")
	}
	return x.take(data, v)
}

// take reads a document into v, if there is room for its values.
func (x *exchange) take(data []byte, v any) error {
	values := int64(bytes.Count(data, []byte(",")))
	if err := x.hold(int64(len(data)) + values*valueSize); err != nil { // texts are copied
		return err
	}
	if values > manyValues && countValues(data, reflect.TypeOf(v)) > mostValues {
		return tooLarge(fmt.Sprintf("more than %d items in a list, or %d values", MaxItems, mostValues))
	}
	return decode(data, v)
}

const jsonType = "application/json"

// decode reads a JSON document into v, a pointer to a struct. It reports everything that is wrong at once: unknown
// fields, wrong types, and the values that a method check of v reports.
func decode(data []byte, v any) error {
	err := readFields(data, v)
	p, ok := errors.AsType[*Problem](err)
	checked, checks := v.(interface{ check() error })
	if !checks || err != nil && (!ok || len(p.Fields) == 0) {
		return err
	}
	return together(err, checked.check())
}

// Bounds of a document: small values cost a multiple of their text once they are read.
const (
	manyValues = 50_000 // from so many on they are counted
	mostValues = 500_000
	valueSize  = 256 // bytes
)

// countValues is how many values of a document are read into a type; a list that is too long counts as too many. A
// value that is kept as it is written is one.
func countValues(data []byte, t reflect.Type) (n int) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	n = 1
	switch {
	case t == reflect.TypeFor[json.RawMessage](), t == reflect.TypeFor[time.Time]():
	case t.Kind() == reflect.Struct:
		known := fieldsOf(t)
		wire.EachMember(data, func(name string, value []byte) {
			n++
			if f := known[name]; f != nil && n <= mostValues {
				n += countValues(value, f)
			}
		})
	case t.Kind() == reflect.Map:
		wire.EachMember(data, func(_ string, value []byte) {
			if n++; n <= mostValues {
				n += countValues(value, t.Elem())
			}
		})
	case t.Kind() == reflect.Slice:
		items, _ := wire.Elements(data, MaxItems+1) // what is no list has none
		if len(items) > MaxItems {
			return mostValues + 1
		}
		for _, item := range items {
			n += countValues(item, t.Elem())
		}
	}
	return n
}

func readFields(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) && bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
			if bytes.Contains(data, []byte("null")) { // a field may be null, an item of an array may not
				return invalid(faultsWithin(data, reflect.TypeOf(v).Elem(), ""))
			}
			return nil
		}
	}
	if !json.Valid(data) {
		return malformed("the body is not a JSON document")
	}
	if faults := faultsWithin(data, reflect.TypeOf(v).Elem(), ""); len(faults) > 0 {
		_ = json.Unmarshal(data, v) // the rest is read, to be checked
		return invalid(faults)
	}
	return fault("", "is not valid")
}

// faultsWithin names what in an object does not fit the fields of a struct.
func faultsWithin(data []byte, t reflect.Type, path string) (faults []wire.Fault) {
	if first := bytes.TrimSpace(data); len(first) == 0 || first[0] != '{' {
		return []wire.Fault{{Field: path, Why: "must be an object"}}
	}
	if path != "" {
		path += "."
	}
	known := fieldsOf(t)
	wire.EachMember(data, func(name string, value []byte) {
		f := known[name]
		switch {
		case len(faults) > maxFaults:
		case f == nil:
			faults = append(faults, wire.Fault{Field: path + name, Why: "is not known here"})
		default:
			faults = append(faults, faultsOf(value, f, path+name)...)
		}
	})
	return faults
}

func faultsOf(data []byte, t reflect.Type, path string) (faults []wire.Fault) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case string(data) == "null":
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]():
		return faultsWithin(data, t, path)
	case t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]():
		items, err := wire.Elements(data, MaxItems)
		if err != nil {
			return []wire.Fault{{Field: path, Why: "must be an array"}}
		}
		for i, item := range items {
			at := path + "[" + strconv.Itoa(i) + "]"
			if faults = append(faults, faultsOf(item, t.Elem(), at)...); string(item) == "null" {
				faults = append(faults, wire.Fault{Field: at, Why: "is null"})
			}
			if len(faults) > maxFaults {
				break
			}
		}
	case json.Unmarshal(data, reflect.New(t).Interface()) != nil:
		return []wire.Fault{{Field: path, Why: "must be " + jsonKind(t)}}
	}
	return faults
}

// fieldsOf are the types of the fields of a struct, by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			all[name] = f.Type
		}
	}
	return all
}

// jsonKind names what a type is in JSON.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Map, reflect.Struct:
		if t == reflect.TypeFor[time.Time]() {
			return "a time as in RFC 3339"
		}
		return "an object with texts"
	default:
		return "a text"
	}
}

// answer answers with a JSON document.
func (x *exchange) answer(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	x.w.Header().Set("Content-Type", jsonType)
	return x.write(status, append(b, '\n'))
}

// leastPacked is from how many bytes on an answer is packed.
const leastPacked = 4 << 10

// write writes an answer whole, or returns why the client does not have it.
func (x *exchange) write(status int, b []byte) error {
	h := x.w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(b) >= leastPacked && !x.plain && acceptsGzip(x.r.Header.Get("Accept-Encoding")) {
		var packed bytes.Buffer
		z, _ := x.api.packers.Get().(*gzip.Writer)
		z.Reset(&packed)
		_, _ = z.Write(b) // a buffer takes all
		_ = z.Close()
		x.api.packers.Put(z)
		b = packed.Bytes()
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(b)))
	x.w.WriteHeader(status)
	if x.r.Method == http.MethodHead {
		return nil
	}
	for len(b) > 0 {
		_ = x.control.SetWriteDeadline(time.Now().Add(stallTime))
		n, err := x.w.Write(b[:min(len(b), 64<<10)])
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			weight := strings.TrimPrefix(strings.ReplaceAll(q, " ", ""), "q=")
			n, err := strconv.ParseFloat(weight, 64)
			return weight == "" || err == nil && n > 0
		}
	}
	return false
}
