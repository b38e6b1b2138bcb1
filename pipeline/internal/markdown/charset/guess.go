package charset

import (
	"bytes"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	utf "golang.org/x/text/encoding/unicode"
)

// Letters of languages beyond ASCII, the frequent ones first.
const (
	french     = "éàèêçôâîûùïëœüæÿ"
	german     = "üäößéàè"
	spanish    = "óíáéñúü"
	portuguese = "ãçáéóêíõúâôàü"
	italian    = "àèùòéìî"
	dutch      = "ëïéèöü"
	swedish    = "äåöéüà"
	danish     = "øåæéöüäóò"
	icelandic  = "áíöðéóþúæý"
	estonian   = "äõüöšž"
	polish     = "łąężóśćńź"
	czech      = "áíéěřčšžýůúňťďó"
	slovak     = "áíéčšžýúľťôňďäóĺŕ"
	hungarian  = "áéöőóüíúű"
	romanian   = "ăţîşâșțé"
	croatian   = "čšžćđ"
	turkish    = "ıüşğöçİâîû"
	lithuanian = "ėųšįąžūčę"
	latvian    = "āīēšūņļžģķč"
	vietnamese = "áàđưôểếộệêạảịốậóợấớầùíụặỗìủềọờãữựứúỉâýơửổắừỏòéồăởẫẩằũẽỡõĩẻẹèẵỳỹễỷẳẳ"
	russian    = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"
	ukrainian  = "оанивітерслкудмпязьгйбчхцюжшїєщфґ"
	bulgarian  = "аиоентрвсдлкпмзубъгчяйщцжхшфюь"
	serbian    = "аиоенрстјудквмплзбгчшцжћљхњђфџ"
	belarusian = "анітлерсокідвпмўуыязьгбчцйхжшюэёф"
	greek      = "αοιετνσηρπκμλςυίόάγέδωήθχύβφώξζψϊΐϋΰ"
	hebrew     = "יהולאבתרמשנדםקעחפטגסזצןכךףץ־׳״"
	arabic     = "الينمورتبةعدسفهقكحجأشطصىخإذزثضءغئظؤآپچگیک"
	thai       = "านรก่อเง้มยลดวีัทสตปะคิไหจแชพใขโ์ูบุึ็ืถซผๆธำศณฐภษญฟ๊ฉฎฝฆฮฏฬฒฤ๋ฌฑ"
)

// frequent are words that tell languages with the Latin script from each other.
var frequent = map[string]string{
	french:     "de la le les des et en un une du est que pour dans pas par sur au",
	german:     "der die und das den von zu mit nicht ist ein eine auf für sich im dem wird",
	spanish:    "de la que el en los del las un por con no una se es para al",
	portuguese: "de que do da em um para com não uma os no se na por ao",
	italian:    "di che il la in un per non del della una con le si da è",
	dutch:      "de het een van en dat is op te zijn niet voor met wordt",
	swedish:    "och att det som en på är av för med den till inte kan",
	danish:     "og det er at en til på som af av for ikke med der kan",
	icelandic:  "og að er sem til við um ekki það frá með",
	estonian:   "ja on ei et see kui oma ta või ning mis",
	polish:     "nie na się do to że jest jak lub dla od przez po nie",
	czech:      "se na je že to jako pro byl není nebo do po od",
	slovak:     "sa na je že to ako pre bol nie alebo do po od",
	hungarian:  "az és hogy nem is egy meg ez csak van nincs volt",
	romanian:   "de în la cu pe nu din care mai să sau pentru este",
	croatian:   "je na se da za su od kao nije ili ne iz",
	turkish:    "ve bir bu da de için ile ne gibi çok değil var yok",
	lithuanian: "ir yra kad su iš tai kaip ne bet apie nėra",
	latvian:    "un ir ar par no uz kas ka lai to nav vai",
	vietnamese: "là và của có không được cho trong các một những này với đã để",
}

// Characters that are found in nearly every text of some length.
const (
	chinese = "的一是不了在有人我他这這中大来來上国國个個到说說们們为為子和你地出道也时時年得就那要下以生会會自着去之过過家学學" +
		"对對可她里裡后後小么麼心多天而能好都然没沒日于於起还還发發成事只作当當想看文无無用手方又如前所本定件使字或"
	kanji = "日一国会人年大十二本中長出三同時政事自行社見月分議後前民生連五発間対上部東者党地合市業内相方四定今回新場金員" +
		"九入選立開手米力学問高代明実円関決子動京全目表戦経通外最言氏現理調体化田当八六約主題下首意法不来作性的要用"
)

// candidate is an encoding that a text may be in, and the languages that are written in it. Of several that read a text
// equally well, the first is taken.
type candidate struct {
	name      string
	encoding  encoding.Encoding
	languages []string
}

var candidates = []candidate{
	{"windows-1252", charmap.Windows1252, []string{french, german, spanish, portuguese, italian, dutch, swedish,
		danish, estonian, icelandic}},
	{"windows-1250", charmap.Windows1250, []string{polish, czech, slovak, hungarian, romanian, croatian}},
	{"iso-8859-2", charmap.ISO8859_2, []string{polish, czech, slovak, hungarian, romanian, croatian}},
	{"windows-1251", charmap.Windows1251, []string{russian, ukrainian, bulgarian, serbian, belarusian}},
	{"koi8-r", charmap.KOI8R, []string{russian, bulgarian}},
	{"koi8-u", charmap.KOI8U, []string{ukrainian}},
	{"ibm866", charmap.CodePage866, []string{russian, ukrainian, bulgarian, belarusian}},
	{"iso-8859-5", charmap.ISO8859_5, []string{russian, ukrainian, bulgarian, serbian, belarusian}},
	{"x-mac-cyrillic", charmap.MacintoshCyrillic, []string{russian, ukrainian, bulgarian, serbian}},
	{"ibm855", charmap.CodePage855, []string{russian, bulgarian, serbian}},
	{"windows-1253", charmap.Windows1253, []string{greek}},
	{"iso-8859-7", charmap.ISO8859_7, []string{greek}},
	{"windows-1254", charmap.Windows1254, []string{turkish}},
	{"windows-1255", charmap.Windows1255, []string{hebrew}},
	{"ibm862", charmap.CodePage862, []string{hebrew}},
	{"windows-1256", charmap.Windows1256, []string{arabic}},
	{"iso-8859-6", charmap.ISO8859_6, []string{arabic}},
	{"windows-1257", charmap.Windows1257, []string{lithuanian, latvian, estonian}},
	{"windows-1258", charmap.Windows1258, []string{vietnamese}},
	{"windows-874", charmap.Windows874, []string{thai}},
	{"iso-8859-15", charmap.ISO8859_15, []string{french, german, spanish, italian}},
	{"ibm437", charmap.CodePage437, []string{german, french, spanish, italian, swedish}},
	{"ibm850", charmap.CodePage850, []string{german, french, spanish, italian, swedish, portuguese, danish}},
	{"ibm852", charmap.CodePage852, []string{polish, czech, slovak, hungarian, croatian}},
	{"macintosh", charmap.Macintosh, []string{french, german, spanish, portuguese, italian, swedish, danish}},
	{"gb18030", simplifiedchinese.GB18030, nil},
	{"shift_jis", japanese.ShiftJIS, nil},
	{"big5", traditionalchinese.Big5, nil},
	{"euc-kr", korean.EUCKR, nil},
	{"euc-jp", japanese.EUCJP, nil},
}

// unsure is how much better than the second the best guess has to be.
const unsure = 0.08

// guess finds the encoding of a text that does not say it, and whether no other is nearly as likely.
func guess(data []byte, valid bool) (name string, e encoding.Encoding, sure bool) {
	data = head(data)
	var zeros [4]int // by place
	for i, c := range data {
		if c == 0 {
			zeros[i%4]++
		}
	}
	even, odd := zeros[0]+zeros[2], zeros[1]+zeros[3]
	switch quarter := len(data) / 4; {
	case quarter > 0 && len(data)%4 == 0 && zeros[3] == quarter && 2*zeros[2] >= quarter && 2*zeros[0] <= quarter:
		return "utf-32le", unlisted["utf-32le"], true
	case quarter > 0 && len(data)%4 == 0 && zeros[0] == quarter && 2*zeros[1] >= quarter && 2*zeros[3] <= quarter:
		return "utf-32be", unlisted["utf-32be"], true
	case valid && bytes.Contains(data, []byte(koreanMark)):
		return "iso-2022-kr", unlisted["iso-2022-kr"], true
	case odd > len(data)/8 && odd > 4*even:
		return "utf-16le", utf.UTF16(utf.LittleEndian, utf.IgnoreBOM), true
	case even > len(data)/8 && even > 4*odd:
		return "utf-16be", utf.UTF16(utf.BigEndian, utf.IgnoreBOM), true
	case valid && (bytes.Contains(data, []byte("\x1b$B")) || bytes.Contains(data, []byte("\x1b$@"))):
		return "iso-2022-jp", japanese.ISO2022JP, true
	case valid || cut(data):
		return "utf-8", utf.UTF8, true
	}
	data = telling(data)
	best, score, second := candidates[0], -100.0, -100.0
	text := ""
	for _, c := range candidates {
		t := decode(data, c.encoding)
		s := likely(t, c)
		if strings.Contains(c.name, "mac") || c.name == "ibm855" || c.name == "ibm862" { // they are rare
			s -= 0.04
		}
		switch {
		case t == text && s <= score:
		case t == text:
			best, score = c, s
		case s > score:
			best, score, second, text = c, s, score, t
		case s > second:
			second = s
		}
	}
	return best.name, best.encoding, score > 0.4 && score-second > unsure
}

// telling are the lines of a text that are not ASCII, each from a little before, as many as a guess needs: to read all
// of a large text in thirty encodings would take longer than its conversion.
func telling(data []byte) []byte {
	const enough, before = 2 << 10, 32
	var out []byte
	for line := range bytes.Lines(data) {
		first := bytes.IndexFunc(line, func(r rune) bool { return r >= utf8.RuneSelf })
		if first < 0 {
			continue
		}
		line = line[max(first-before, 0):]
		out = append(out, line[:min(len(line), enough)]...)
		if len(out) >= enough {
			break
		}
	}
	return out
}

// cut reports whether nearly all of a text is UTF-8: it has a flaw, or was cut within a character.
func cut(data []byte) bool {
	good, broken := 0, 0
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			broken++
		case size > 1:
			good++
		}
		i += size
	}
	return good > 4*broken
}

// likely is how likely a decoded text is one in a language of the candidate: at most about 1.
func likely(text string, c candidate) float64 {
	if c.languages == nil {
		return ideographs(text, c.name)
	}
	best, runes := -100.0, []rune(text)
	spoken := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !isLetter(r) })
	for _, language := range c.languages {
		a := alphabets()[language]
		n := 0
		for _, word := range spoken {
			if a.frequent[word] {
				n++
			}
		}
		best = max(best, written(runes, a)+0.8*float64(n)/float64(len(spoken)+1))
	}
	return best
}

// alphabet has the letters of a language: how well each fits, by how frequent it is.
type alphabet struct {
	weights  map[rune]float64
	frequent map[string]bool
	latin    bool
	prior    float64
}

// alphabets are those of all candidates, by the letters.
var alphabets = sync.OnceValue(func() map[string]alphabet {
	all := map[string]alphabet{}
	for _, c := range candidates {
		for _, letters := range c.languages {
			a := alphabet{weights: map[rune]float64{}, frequent: map[string]bool{}}
			for word := range strings.FieldsSeq(frequent[letters]) {
				a.frequent[word], a.latin = true, true
			}
			n := float64(utf8.RuneCountInString(letters))
			for _, r := range letters {
				a.weights[r] = 1 - 0.7*float64(len(a.weights))/n
			}
			switch letters { // others are taken for them
			case icelandic:
				a.prior = -0.05
			case vietnamese:
				a.prior = -0.12
			}
			all[letters] = a
		}
	}
	return all
})

// written is how likely a text is one of a language with an alphabet, by what its characters beyond ASCII are and where
// they stand.
func written(runes []rune, a alphabet) float64 {
	total, all, ascii := 0.0, 0, 0
	for i, r := range runes {
		if r < utf8.RuneSelf {
			if unicode.IsLetter(r) {
				ascii++
			}
			continue
		}
		all++
		before, after := ' ', ' '
		if i > 0 {
			before = runes[i-1]
		}
		if i+1 < len(runes) {
			after = runes[i+1]
		}
		total += a.placed(r, before, after)
	}
	if !a.latin && ascii > 4*all { // then some letters are accented
		total -= 0.1 * float64(all)
	}
	return total/float64(max(all, 1)) + a.prior
}

// words are letters beyond ASCII that are words on their own.
const words = "àéèáíóôåаиоувксяізєοηήو"

// placed is how well a character fits between its neighbours.
func (a alphabet) placed(r, before, after rune) float64 {
	w, known := a.weights[r]
	if !known {
		w, known = a.weights[unicode.ToLower(r)]
		w -= 0.05
	}
	letters := isLetter(before) && isLetter(after)
	switch {
	case r == utf8.RuneError || unicode.IsControl(r) || 0xe000 <= r && r < 0xf900:
		return -4
	case known:
	case unicode.IsLetter(r) || unicode.IsMark(r):
		return -1
	case strings.ContainsRune("’‘“”„«»–—…\u00a0№°§€•·©®¿¡،؛؟฿£", r):
		if letters && r != '’' && r != '–' && r != '—' && r != '·' && r != '\u00a0' {
			return -1
		}
		return 0.5
	case strings.ContainsRune("µ±×½¼¾²³°÷ªº", r) && !letters && (!isLetter(before) || strings.ContainsRune("²³", r)):
		return 0.2
	default:
		return -1.2
	}
	mixed := func(o rune) bool { return o < utf8.RuneSelf && unicode.IsLetter(o) }
	switch {
	case unicode.IsLower(before) && unicode.IsUpper(r) || unicode.IsLower(r) && unicode.IsUpper(after):
		return w - 1.5
	case !a.latin && r != '־' && (mixed(before) || mixed(after)):
		return w - 1
	case unicode.IsDigit(before) && !isLetter(after), unicode.IsDigit(after) && !isLetter(before),
		!isLetter(before) && !isLetter(after) && !strings.ContainsRune(words, unicode.ToLower(r)):
		return w - 1 // a sign, not a letter, in the right encoding
	case a.latin && before >= utf8.RuneSelf && isLetter(before) && after >= utf8.RuneSelf && isLetter(after):
		return w - 0.7
	case strings.ContainsRune("ςךםןףץ", r) && isLetter(after), r == 'σ' && !isLetter(after):
		return w - 1 // a form for the end of words, or never there
	case unicode.Is(thaiMarks, r) && !unicode.Is(unicode.Thai, before),
		unicode.Is(thaiMarks, r) && strings.ContainsRune("เแโใไะาำ", before),
		strings.ContainsRune("เแโใไ", r) && (unicode.Is(thaiMarks, after) || !unicode.Is(unicode.Thai, after)):
		return w - 1.5
	case r == 'ъ' || r == 'ь' || r == 'ы':
		if !isLetter(before) {
			return w - 1.5 // no word begins with it
		}
	}
	return w
}

var thaiMarks = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0xe31, Hi: 0xe31, Stride: 1},
	{Lo: 0xe34, Hi: 0xe3a, Stride: 1}, {Lo: 0xe47, Hi: 0xe4e, Stride: 1}}}

func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.IsMark(r) }

// ideographs is how likely a decoded text is Chinese, Japanese or Korean: the share of the characters that are used
// most.
func ideographs(text, name string) float64 {
	good, all, frequent := 0.0, 0, 0
	runes := []rune(text)
	for i, r := range runes {
		if r < utf8.RuneSelf {
			continue
		}
		all++
		beside := func(j int, is func(rune) bool) bool { return j >= 0 && j < len(runes) && is(runes[j]) }
		latin := func(o rune) bool { return o < utf8.RuneSelf && unicode.IsLetter(o) }
		if beside(i-1, latin) || beside(i+1, latin) {
			good -= 0.7
		}
		other := func(o rune) bool { return o >= utf8.RuneSelf }
		if !beside(i-1, other) && !beside(i+1, other) {
			good -= 0.8
		}
		half := func(o rune) bool { return 0xff61 <= o && o <= 0xff9f }
		switch {
		case half(r) && name == "shift_jis" && (beside(i-1, half) || beside(i+1, half)):
			good += 0.5
		case half(r) || r == utf8.RuneError || 0xe000 <= r && r < 0xf900:
			good -= 3
		case 0x3040 <= r && r < 0x3100: // kana
			frequent++
			if name == "shift_jis" || name == "euc-jp" {
				good += 1.2
			}
		case 0xac00 <= r && r < 0xd7b0 && name == "euc-kr":
			good += 1.2 * common(r, name)
		case 0x3000 <= r && r < 0x3040 || 0xff00 <= r && r < 0xff61: // punctuation
			good += 0.8
		case 0x4e00 <= r && r < 0xa000:
			good += common(r, name)
			if strings.ContainsRune(everywhere[name], r) {
				good += 0.5
				frequent++
			}
		case unicode.IsLetter(r): // other alphabets are in there as well
			good -= 0.5
		}
	}
	if everywhere[name] != "" && all > 5 && 8*frequent < all {
		good -= 0.3 * float64(all)
	}
	return good / float64(max(all, 1))
}

// everywhere are the characters that are found in nearly every text of an encoding.
var everywhere = map[string]string{"gb18030": chinese, "big5": chinese, "shift_jis": kanji, "euc-jp": kanji}

// firstLevel is where the frequent characters of an encoding are, by their first byte.
var firstLevel = map[string]struct {
	from, to byte
	encoding encoding.Encoding
}{
	"gb18030":   {0xb0, 0xd7, simplifiedchinese.GB18030},
	"shift_jis": {0x88, 0x97, japanese.ShiftJIS},
	"big5":      {0xa4, 0xc6, traditionalchinese.Big5},
	"euc-kr":    {0xb0, 0xc8, korean.EUCKR},
	"euc-jp":    {0xb0, 0xcf, japanese.EUCJP},
}

// common is 0.9 for a character in the first level of an encoding, where the frequent ones are, and 0.1 for others.
func common(r rune, name string) float64 {
	level, ok := firstLevel[name]
	if !ok {
		return 0.1
	}
	b, err := level.encoding.NewEncoder().Bytes([]byte(string(r)))
	if err != nil || len(b) != 2 || b[0] < level.from || b[0] > level.to ||
		b[1] < 0xa1 && name != "big5" && name != "shift_jis" {
		return 0.1
	}
	return 0.9
}
