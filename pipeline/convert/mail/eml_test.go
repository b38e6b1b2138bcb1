package mail

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// der is an element of definite length; ber is one of indefinite length.
func der(tag byte, parts ...string) string {
	content := strings.Join(parts, "")
	return string([]byte{tag, 0x82, byte(len(content) >> 8), byte(len(content))}) + content
}

func ber(tag byte, parts ...string) string {
	return string([]byte{tag, 0x80}) + strings.Join(parts, "") + "\x00\x00"
}

// cms is what S/MIME makes of octets: signed, unless kind is another one.
func cms(form func(byte, ...string) string, kind, octets string) string {
	const data = "\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01"
	content := form(0x30, data, form(0xa0, octets))
	return form(0x30, data[:10]+kind, form(0xa0, form(0x30, "\x02\x01\x01", form(0x31), content)))
}

func TestMailsThatAreSignedOrEncrypted(t *testing.T) {
	const inner = "Content-Type: text/plain\r\n\r\nsigned text\r\n"
	for _, c := range []struct{ data, want string }{
		{cms(der, "\x02", der(0x04, inner)), "signed text\n"},
		{cms(ber, "\x02", ber(0x24, der(0x04, inner[:9]), der(0x04, inner[9:]))), "signed text\n"},
		{cms(der, "\x03", der(0x04, inner)), ""},
		{cms(ber, "\x02", strings.Repeat("\x30\x80", 99)), ""},
		{"\x30\x85", ""}, {"", ""}, {"\x30\x05ab", ""},
	} {
		mail := "Content-Type: application/x-pkcs7-mime; name=smime.p7m\r\nContent-Disposition: attachment\r\n" +
			"Content-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString([]byte(c.data))
		got, err := Eml(t.Context(), doc.Document{Data: []byte(mail)})
		locked := pawl.Describe(err).Kind == doc.KindLocked
		if got.Text != c.want || locked != (c.want == "") || !locked && err != nil {
			t.Errorf("%x: %v\n%q, want %q", c.data, err, got.Text, c.want)
		}
	}
	const pgp = "Content-Type: multipart/encrypted; boundary=b\r\n\r\n--b\r\n\r\nVersion: 1\r\n--b--\r\n"
	if _, err := Eml(t.Context(), doc.Document{Data: []byte(pgp)}); pawl.Describe(err).Kind != doc.KindLocked {
		t.Errorf("PGP: %v", err)
	}
}

// Lines that end with a space go on, within their level of quotes.
func TestJoinedLines(t *testing.T) {
	for in, want := range map[string]string{
		"a \nb\n\nc\n":            "a b\n\nc\n",
		"> a \n> b\n>> c \nd\n":   "> a b\n> > c \nd\n",
		" From x\n-- \nsign \nme": "From x\n-- \nsign me\n",
	} {
		if got := joined(in, false); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := joined("日 \n本\n", true); got != "日本\n" {
		t.Errorf("without spaces: %q", got)
	}
}
