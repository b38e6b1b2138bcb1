package charset_test

import (
	"testing"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/pawl-dev/pawl/markdown/charset"
)

func TestGuess(t *testing.T) {
	for name, text := range map[string]string{
		"windows-1252": "Café crème, déjà vu – naïve façade; Übergröße",
		"gb18030":      "中文文档的内容应该被正确地转换，没有乱码。",
		"shift_jis":    "日本語の文書は正しく変換されるはずです。カタカナも。",
		"euc-jp":       "日本語の文書は正しく変換されるはずです。",
		"big5":         "繁體中文的文件應該正確地轉換，不會有亂碼。",
		"euc-kr":       "한국어 문서는 올바르게 변환되어야 합니다.",
		"windows-1251": "Русский текст должен быть преобразован правильно, без ошибок.",
		"utf-16le":     "plain text and more of it",
		"utf-8":        "日本語 é",
	} {
		e, err := htmlindex.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := e.NewEncoder().Bytes([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := charset.Decode(data, ""); got != text {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ data, label, want string }{
		{"\xff\xfea\x00", "", "a"},
		{"\xff\xfe\x00\x00a\x00\x00\x00", "", "a"},
		{"\xef\xbb\xbf\xc3\xa9", "latin1", "é"},
		{"\xe9", "iso-8859-1", "é"},
		{"<meta charset=windows-1252>\xe9", "", "<meta charset=windows-1252>é"},
		{`<?xml version="1.0" encoding="ISO-8859-1"?>` + "\xe9", "", `<?xml version="1.0" encoding="ISO-8859-1"?>é`},
		{`<?xml version="1.0" encoding="UTF-16"?>x`, "", `<?xml version="1.0" encoding="UTF-16"?>x`},
		{"\xc3\xa9", "nobody-knows", "é"},
	} {
		if got := charset.Decode([]byte(c.data), c.label); got != c.want {
			t.Errorf("%q as %q: %q", c.data, c.label, got)
		}
	}
	if got := charset.Codepage([]byte("\x93\xfa"), 932); got != "日" {
		t.Errorf("code page 932: %q", got)
	}
}
