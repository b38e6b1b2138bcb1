package charset_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
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
		"windows-1250": "Zażółć gęślą jaźń. Pchnąć w tę łódź jeża",
		"iso-8859-2":   "Příliš žluťoučký kůň úpěl ďábelské ódy",
		"iso-8859-7":   "Ελληνικό κείμενο για δοκιμή του προγράμματος",
		"windows-1253": "Άλλο, το πρόγραμμα λειτουργεί σωστά",
		"windows-1254": "Türkçe metin: İstanbul çok güzel bir şehir",
		"windows-1255": "שלום עולם, זהו טקסט בעברית שנועד לבדוק את הקידוד",
		"windows-1256": "مرحبا بالعالم، هذا نص باللغة العربية",
		"windows-1257": "Šodien ir ļoti skaista diena, un bērni spēlējas ārā",
		"windows-874":  "สวัสดีชาวโลก นี่คือข้อความภาษาไทย",
		"koi8-r":       "Русский текст в кодировке КОИ",
		"ibm866":       "Русский текст в кодировке ДОС для проверки.",
		"ibm437":       "Grüße aus Köln, déjà vu.",
		"ibm852":       "Szanowni Państwo, proszę o przesłanie oferty na usługi księgowe",
		"macintosh":    "Die Bäume blühen schöner; das weiß jeder Großvater, très célèbre",
		"iso-2022-jp":  "日本語の文書",
		"windows-1258": "Tập tin không có đủ quyền để đọc",
	} {
		apart := text
		if name == "windows-1258" { // it has tones apart
			apart = strings.NewReplacer("ậ", "â\u0323", "ủ", "u\u0309", "ề", "ê\u0300", "ể", "ê\u0309",
				"ọ", "o\u0323").Replace(text)
		}
		data, err := charset.Named(name).NewEncoder().Bytes([]byte(apart))
		if err != nil {
			t.Fatal(err)
		}
		if got := charset.Decode(data, ""); got != text {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A few characters have to do, and signs are not taken for letters.
func TestGuessOfFew(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"windows-1252", "It’s a “test” — done"}, {"windows-1252", "Price £5 only"}, {"windows-1252", "© 2020 Acme"},
		{"windows-1252", "It is 25°C today"}, {"windows-1252", "résumé"}, {"windows-1252", "Zoë and Chloë"},
		{"windows-1252", "Größe: 5 µm ±3 × ½"}, {"windows-1252", "ÜBERSICHT DER GRÖSSEN"},
		{"ibm850", "Müller GmbH"}, {"windows-1250", "Łódź"}, {"windows-1251", "ПРИВЕТ МИР"}, {"shift_jis", "田中,ﾀﾅｶ\n"},
		{"ibm850", "Kunne ikke indlæse ikon"}, {"windows-1251", "ПРИЛОЖЕНИЕ ДЕЙСТВИЕ [ПАРАМЕТР]"},
		{"windows-1252", "La pagina non è disponibile"}, {"windows-1255", "להפוך את Caps Lock ל־Num Lock נוסף"},
		{"windows-1254", "--daemon kullanılamıyor; unix yuva desteği yok"},
		{"gb18030", "中文"}, {"ibm866", "Документ.txt"}, {"ibm437", "Übung.txt"}, {"shift_jis", "日本語.txt"},
	} {
		data, err := charset.Named(c.name).NewEncoder().Bytes([]byte(c.text))
		if err != nil {
			t.Fatal(err)
		}
		if got, found := charset.Read(data, ""); got != c.text || !found.Guessed {
			t.Errorf("%s: %q %+v, want %q", c.name, got, found, c.text)
		}
	}
}

// The evidence has an order: byte order mark, label, declaration, guess; none of it where the text cannot be read so.
func TestRead(t *testing.T) {
	for _, c := range []struct{ data, label, want, name string }{
		{"\xef\xbb\xbf\xc3\xa9", "iso-8859-2", "é", "utf-8"},
		{"<meta charset=iso-8859-2>\xb1", "iso-8859-7", "<meta charset=iso-8859-2>±", "iso-8859-7"},
		{"<meta charset=gb2312>腾讯网 首页", "", "<meta charset=gb2312>腾讯网 首页", "utf-8"},
		{"<meta charset=utf-8>caf\xe9 cr\xe8me", "", "<meta charset=utf-8>café crème", "windows-1252"},
		{"<meta charset=gb2312>é", "utf-8", "<meta charset=gb2312>é", "utf-8"},
		{"日本語の文書 \xff and more", "", "日本語の文書 \uFFFD and more", "utf-8"},
		{"\x81", "cp437", "ü", "cp437"},
	} {
		if got, found := charset.Read([]byte(c.data), c.label); got != c.want || found.Name != c.name {
			t.Errorf("%q as %q: %q %+v", c.data, c.label, got, found)
		}
	}
}

func TestDecode(t *testing.T) {
	for _, c := range []struct{ data, label, want string }{
		{"\xff\xfea\x00", "", "a"},
		{"\xff\xfe\x00\x00a\x00\x00\x00", "", "a"},
		{"\x00\x00\xfe\xff\x00\x00\x00a", "", "a"},
		{"a\x00\x00\x00\x00\xf6\x01\x00", "", "a😀"},
		{"\x00\x00\x00a\x00\x01\xf6\x00", "", "a😀"},
		{"\x1b$)CA \x0eGQ19\x0f B", "", "A 한국 B"},
		{"\x1b$)CA \x0eGQ\nA", "ISO-2022-KR", "A 한\nA"},
		{"~{VPND~} ~~", "HZ-GB-2312", "中文 ~"},
		{"Hi Mom +Jjo-! 1 +- 1 = +ZeVnLA, a + b", "utf-7", "Hi Mom ☺! 1 + 1 = 日本, a + b"},
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
