package mail

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/richardlehane/mscfb"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// Properties of a message in Outlook's format, as names of streams begin.
const (
	propSubject = "0037"
	propFrom    = "0C1A"
	propFromAt  = "5D01"
	propFromOld = "0C1F"
	propTo      = "0E04"
	propCc      = "0E03"
	propText    = "1000"
	propHTML    = "1013"
	propData    = "3701"
	propName    = "3707"
	propShort   = "3704"
	stream      = "__substg1.0_"
	attachment  = "__attach_version1.0_"
	properties  = "__properties_version1.0"
)

// Msg converts a message of Outlook.
func Msg(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	r, err := mscfb.New(bytes.NewReader(d.Data))
	if err != nil {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not an Outlook message: %w", err)
	}
	var m message
	own := map[string]string{}
	attached := map[string]map[string]string{}
	var order []string
	date := ""
	for e, err := r.Next(); ; e, err = r.Next() {
		if errors.Is(err, io.EOF) || e == nil {
			break
		}
		if err != nil {
			return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is cut off: %w", err)
		}
		values := own
		switch {
		case len(e.Path) == 1 && strings.HasPrefix(e.Path[0], attachment):
			if attached[e.Path[0]] == nil {
				attached[e.Path[0]] = map[string]string{}
				order = append(order, e.Path[0])
			}
			values = attached[e.Path[0]]
		case len(e.Path) > 0:
			continue
		case e.Name == properties:
			b, _ := io.ReadAll(io.LimitReader(e, 1<<20))
			date = sent(b)
			continue
		}
		if name, ok := strings.CutPrefix(e.Name, stream); ok && len(name) == 8 {
			b, err := io.ReadAll(io.LimitReader(e, int64(len(d.Data))))
			if err != nil {
				return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is cut off: %w", err)
			}
			values[name[:4]] = property(b, name[4:])
		}
	}
	if len(own) == 0 {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not an Outlook message")
	}
	m.subject, m.text = own[propSubject], own[propText]
	if h := own[propHTML]; h != "" {
		m.html = charset.Decode([]byte(h), "")
	}
	from := own[propFrom]
	if at := cmp.Or(own[propFromAt], own[propFromOld]); strings.Contains(at, "@") && at != from {
		from = strings.TrimSpace(from + " <" + at + ">")
	}
	for _, h := range [][2]string{{"From", from}, {"To", own[propTo]}, {"Cc", own[propCc]}, {"Date", date}} {
		if h[1] != "" {
			m.headers = append(m.headers, h)
		}
	}
	for _, name := range order {
		a := attached[name]
		if a[propData] != "" {
			m.attachments = append(m.attachments, doc.Document{Name: cmp.Or(a[propName], a[propShort]),
				Data: []byte(a[propData])})
		}
	}
	return m.write(ctx, d)
}

// property is the value of a stream by its type: UTF-16, text of a code page, or bytes.
func property(b []byte, kind string) string {
	switch kind {
	case "001F":
		return strings.TrimRight(charset.As(b, "utf-16le"), "\x00")
	case "001E":
		return charset.Decode(bytes.TrimRight(b, "\x00"), "") // a zero at the end would look like UTF-16
	}
	return string(b)
}

// sent finds the time of sending, or of delivery, among the properties of fixed length.
func sent(b []byte) string {
	for _, id := range []uint16{0x0039, 0x0E06} {
		for at := 32; at+16 <= len(b); at += 16 {
			if binary.LittleEndian.Uint16(b[at:]) == 0x0040 && binary.LittleEndian.Uint16(b[at+2:]) == id {
				ticks := binary.LittleEndian.Uint64(b[at+8:]) // of 100 ns since 1601
				if seconds := int64(ticks/1e7) - 11_644_473_600; seconds > 0 {
					return time.Unix(seconds, 0).UTC().Format(time.RFC1123Z)
				}
			}
		}
	}
	return ""
}
