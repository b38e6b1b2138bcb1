package api

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"maps"

	"github.com/pawl-dev/pawl/internal/wire"
)

// budget bounds the bytes of all bodies that are being read or worked on.
type budget struct {
	mu   sync.Mutex
	most int64
	used int64
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

func (b *budget) give(n int64) {
	b.mu.Lock()
	b.used -= n
	b.mu.Unlock()
}

// body reads the body of a request, unpacked.
func (x *exchange) body() ([]byte, error) {
	r := x.r
	if r.ContentLength > MaxBody {
		return nil, tooLarge("a request has at most " + strconv.Itoa(MaxBody) + " bytes")
	}
	var from io.Reader = &progress{x, r.Body}
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		unpacked, err := gzip.NewReader(from)
		if err != nil {
			return nil, x.unread(err)
		}
		from = unpacked
	default:
		return nil, unsupported("Content-Encoding is " + strconv.Quote(encoding) + "; it is gzip or none")
	}
	var buf bytes.Buffer
	buf.Grow(int(min(max(r.ContentLength, 0), 1<<20)) + bytes.MinRead)
	for {
		n, err := io.CopyN(&buf, from, 64<<10)
		if buf.Len() > MaxBody {
			return nil, tooLarge("a request has at most " + strconv.Itoa(MaxBody) + " bytes")
		}
		if !x.api.bodies.take(n, x.held) {
			return nil, &Problem{Status: http.StatusServiceUnavailable, Title: "too many bodies at once",
				Detail: "other requests have all the room that there is for bodies", after: time.Second}
		}
		x.held += n
		if errors.Is(err, io.EOF) {
			return buf.Bytes(), nil
		}
		if err != nil {
			return nil, x.unread(err)
		}
	}
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
	return decode(data, v)
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
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || fields == nil {
		return []wire.Fault{{Field: path, Why: "must be an object"}}
	}
	if path != "" {
		path += "."
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		f, ok := fieldOf(t, name)
		if !ok {
			faults = append(faults, wire.Fault{Field: path + name, Why: "is not known here"})
			continue
		}
		faults = append(faults, faultsOf(fields[name], f, path+name)...)
	}
	return faults
}

func faultsOf(data []byte, t reflect.Type, path string) (faults []wire.Fault) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var items []json.RawMessage
	switch {
	case string(data) == "null":
	case t.Kind() == reflect.Struct && t != reflect.TypeFor[time.Time]():
		return faultsWithin(data, t, path)
	case t.Kind() == reflect.Slice && t != reflect.TypeFor[json.RawMessage]():
		if json.Unmarshal(data, &items) != nil {
			return []wire.Fault{{Field: path, Why: "must be an array"}}
		}
		for i, item := range items {
			at := path + "[" + strconv.Itoa(i) + "]"
			if faults = append(faults, faultsOf(item, t.Elem(), at)...); string(item) == "null" {
				faults = append(faults, wire.Fault{Field: at, Why: "is null"})
			}
		}
	case json.Unmarshal(data, reflect.New(t).Interface()) != nil:
		return []wire.Fault{{Field: path, Why: "must be " + jsonKind(t)}}
	}
	return faults
}

// fieldOf is the type of a field by its name in JSON.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type, true
		}
	}
	return nil, false
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
	if len(b) >= leastPacked && acceptsGzip(x.r.Header.Get("Accept-Encoding")) {
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
