package http

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/wire"
)

// describe sets the headers that describe d. Headers of the message come as JSON
// in one of ours: so no name or value of theirs can pass for another header, and
// none is lost for its letters.
func describe(h http.Header, d *pawl.Delivery, until time.Time, last bool) {
	h.Set("Content-Type", "application/octet-stream")
	if t := d.Headers["content-type"]; t != "" && plain(t) {
		h.Set("Content-Type", t)
	}
	set(h, "Pawl-Id", d.ID)
	h.Set("Pawl-Topic", d.Topic)
	if d.Key != nil {
		set(h, "Pawl-Key", string(d.Key))
	}
	h.Set("Pawl-Attempt", strconv.Itoa(d.Attempt))
	h.Set("Pawl-Last-Attempt", strconv.FormatBool(last))
	if !until.IsZero() {
		h.Set("Pawl-Deadline", string(wire.AppendTime(nil, until)))
	}
	h.Set("Pawl-Token", d.Token.String())
	if plain(d.ID) {
		// It also lets the client send again what met a connection that was just closed.
		h.Set("Idempotency-Key", d.ID)
	}
	for header, name := range map[string]string{"Traceparent": "traceparent", "Tracestate": "tracestate"} {
		if v := d.Headers[name]; v != "" && plain(v) {
			h.Set(header, v)
		}
	}
	if len(d.Headers) > 0 {
		h.Set("Pawl-Headers", ascii(wire.AppendHeaders(nil, d.Headers)))
	}
}

// set sets a header to a value as it is, or its -Base64 sibling to one that no
// header can hold.
func set(h http.Header, name, value string) {
	if plain(value) {
		h.Set(name, value)
		return
	}
	h.Set(name+"-Base64", base64.StdEncoding.EncodeToString([]byte(value)))
}

// plain reports whether a header can hold s as it is: printable ASCII, and no space
// at an end, which would be lost.
func plain(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return strings.Trim(s, " ") == s
}

// ascii writes what is not ASCII in a JSON text as \u….
func ascii(json []byte) string {
	var b strings.Builder
	for len(json) > 0 {
		r, n := utf8.DecodeRune(json)
		switch {
		case r < 0x7f:
			b.WriteByte(byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		json = json[n:]
	}
	return b.String()
}
