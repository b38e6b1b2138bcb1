package mail

import "testing"

// The packed texts are the examples of [MS-OXRTFCP], 4.1 and 4.2, and what is cut off or damaged.
func TestUnpackRTF(t *testing.T) {
	for _, c := range []struct{ packed, want string }{
		{"\x2d\x00\x00\x00\x2b\x00\x00\x00LZFu\xf1\xc5\xc7\xa7\x03\x00\x0a\x00rcpg125B2\x0a\xf3 hel\x09\x00 bw\x05" +
			"\xb0ld}\x0a\x80\x0f\xa0", "{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"},
		{"\x1a\x00\x00\x00\x1c\x00\x00\x00LZFu\xe2\xd4KQA\x00\x04 WXYZ\x0dn}\x01\x0e\xb0",
			"{\\rtf1 WXYZWXYZWXYZWXYZWXYZ}"},
		{"\x00\x00\x00\x00\x05\x00\x00\x00MELA\x00\x00\x00\x00{\\rtf}", "{\\rtf"},
		{"\x00\x00\x00\x00\x05\x00\x00\x00LZFu\x00\x00\x00\x00\x01\x00", ""},
	} {
		if got, err := unpackRTF([]byte(c.packed)); err != nil || string(got) != c.want {
			t.Errorf("%q: %v\n%q, want\n%q", c.packed, err, got, c.want)
		}
	}
	for _, bad := range []string{"", "short", "\x00\x00\x00\x00\x05\x00\x00\x00ABCD\x00\x00\x00\x00"} {
		if got, err := unpackRTF([]byte(bad)); err == nil {
			t.Errorf("%q gives %q", bad, got)
		}
	}
}
