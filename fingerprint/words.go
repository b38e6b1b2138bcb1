package fingerprint

import "strings"

// This file knows the words around what varies, and how words read.

// among returns a function that tells the words of a list.
func among(list string) func(w string) bool {
	words := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		words[w] = true
	}
	return func(w string) bool { return words[w] }
}

// inAnyCase is like among, for words in small letters, and tells them in capitals, too.
func inAnyCase(list string) func(w string) bool {
	tells := among(list)
	return func(w string) bool { return tells(strings.ToLower(w)) }
}

// isUnit tells units of numbers.
var isUnit = among(`
	ns us µs μs ms s m h d sec secs second seconds min mins minute minutes hour hours day days millisecond
	milliseconds microseconds B b k K M G T kB KB MB GB TB KiB MiB GiB TiB Ki Mi Gi byte bytes week weeks month
	months year years PB PiB EiB Gb Mb kb Kb bit bits bps EUR USD GBP CHF JPY CNY RMB € £ ¥ Z x th st nd rd`)

// isTimeWord tells words of a date, if a number follows.
var isTimeWord = among(`
	Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec January February March April June July August September
	October November December Mon Tue Wed Thu Fri Sat Sun Monday Tuesday Wednesday Thursday Friday Saturday
	Sunday`)

// isZone tells words behind a time.
func isZone(w string) bool { return zones(w) || isTimeWord(w) }

var zones = among(`
	UTC GMT CET CEST EST EDT PST PDT MSK CST CDT MST MDT BST IST JST KST WET WEST EET EEST HKT SGT AEST AEDT
	NZST NZDT AKST HST LMT AM PM am pm`)

// announcesCode tells words behind which a short number is a cause.
var announcesCode = inAnyCase(`status code statuscode errcode http errno sqlstate exit`)

// isMoney tells currencies in front of an amount.
var isMoney = among(`EUR USD GBP CHF JPY CNY RMB € £ ¥`)

// isRelease tells words behind the numbers of a version.
var isRelease = inAnyCase(`
	rc alpha beta pre dev snapshot release final ga post build patch incompatible m`)

// isNaming tells words behind which a quoted name is the cause.
var isNaming = inAnyCase(`
	key column table field constraint relation index attribute property reading parameter argument option
	module package function method class type schema database role extension header command sequence view
	variable flag setting library symbol trigger procedure operator keyword element plugin policy scope feature
	scheme encoding label`)

// keepsValue tells keys whose value tells causes apart.
var keepsValue = inAnyCase(`
	code status reason error err type kind op method msg message cause event level state`)

// isIdentity tells keys whose value says who or which one it was.
func isIdentity(key string) bool {
	return strings.HasSuffix(key, "Id") || strings.HasSuffix(key, "ID") || identities(key)
}

var identities = inAnyCase(`
	id uuid guid user username login name email mail tenant customer account host hostname ip addr address path
	file filename url uri session token trace span request key userid sessionid traceid spanid requestid
	clientid groupid orderid tenantid customerid accountid bucket object pod phone client remote peer instance`)

// isProse tells words that begin what is wrong, where a value could be: "email:
// invalid" names no address.
func isProse(w string) bool {
	return prose(w) || strings.HasSuffix(w, "ed") || strings.HasSuffix(w, "ing") || strings.HasSuffix(w, "able")
}

var prose = inAnyCase(`
	no not is was must cannot can could invalid missing required unknown empty too already denied forbidden
	null nil none undefined true false connection timeout permission access operation context value unexpected
	internal bad error unable lookup dial read write open stat eof deadline broken address network host server
	resource service wrong duplicate unsupported malformed illegal out does has should the a an only wait
	request response invalidated disk file quota limit rate conflict unauthorized incorrect unreachable
	unavailable down busy locked closed short long absent blank corrupt in on at i ssl tls http json sql parse
	syntax zero gone`)

// isHexID tells hexadecimal digits that happen to be letters from words.
func isHexID(w string) bool {
	return (w == strings.ToLower(w) || w == strings.ToUpper(w)) && !hexWords(w)
}

var hexWords = inAnyCase(`
	accede acceded beaded bedded cabbed dabbed decade deeded deface defaced efface effaced fabaceae facade
	facaded fadded abaaed daffed baffed beefed feeded decaf`)

// following has the letters that commonly follow each letter in the words of
// programs and of English: 95 in 100 pairs of letters are among them, but only
// half of the pairs of random letters.
var following = func() (f [26]uint32) {
	for i, letters := range strings.Fields(`
		abcdfgiklmnprstuvwxy abeilorsu abcdeghiklmnoprstuvy abcdefgilmnorstuv abcdefgilmnopqrstuvwxy acdefilmoprstu
		aceghilmnoprstu adeiortu abcdefglmnoprstvxz aeou aeis abcdeilnopstuy abceimopstuy abcdefgiklmnoprstuvwy
		abcdefgiklmnoprstuvwx acdefhiloprstuy u abcdefgiklmnoprstuvy acdeghiklmnopqrstuwy acdefhilmnoprstuwxy
		abcdefgilmnprst aeios aehinors acefipt imnps aeio`) {
		for _, l := range letters {
			f[i] |= 1 << (l - 'a')
		}
	}
	return f
}()

// strangeness counts the pairs of neighbours of s that no word has, twice, and
// those that few have, against all pairs.
func strangeness(s string) (strange, pairs int) {
	for i := 1; i < len(s); i++ {
		p, c := s[i-1], s[i]
		if !isWord(p) || !isWord(c) {
			continue
		}
		pairs++
		switch {
		case isDigit(p) && isDigit(c):
		case isDigit(p) || isDigit(c):
			strange += 2
		case !isUpper(p) && isUpper(c):
			strange++
		case following[(p|0x20)-'a']&(1<<((c|0x20)-'a')) == 0:
			strange += 2
		}
	}
	return strange, pairs
}

// gibberish tells whether letters are too strange to be a word.
func gibberish(letters string) bool {
	return len(letters) >= 9 && isASCII(letters) && isStrange(letters)
}

// isStrange judges letters of one kind: the more there are, the fewer strange
// pairs tell them from words.
func isStrange(s string) bool {
	strange, pairs := strangeness(s)
	switch {
	case pairs < 12:
		return strange*10 >= pairs*7
	case pairs < 19:
		return strange*10 >= pairs*6
	}
	return strange*10 >= pairs*4
}

// isRandom tells whether s is too strange to be a name: with letters of both
// cases, or digits, it takes less.
func isRandom(s string) bool {
	if !isASCII(s) {
		return false
	}
	var has chars
	for i := range len(s) {
		has |= kinds[s[i]]
	}
	if has&hasDigit != 0 && has&(hasLower|hasUpper) != 0 || has&hasLower != 0 && has&hasUpper != 0 {
		strange, pairs := strangeness(s)
		return pairs > 0 && (strange*2 >= pairs || isShuffled(s, strange, pairs))
	}
	return isStrange(s)
}

// isShuffled tells letters of both cases, as in base64, from the capitals that
// begin the words of a name: they are more, and change more often.
func isShuffled(s string, strange, pairs int) bool {
	upper, lower, changes := 0, 0, 0
	for i := range len(s) {
		switch k := kinds[s[i]]; {
		case k == hasUpper:
			upper++
		case k == hasLower:
			lower++
		}
		if i > 0 && kinds[s[i]] != kinds[s[i-1]] {
			changes++
		}
	}
	if upper+lower == 0 {
		return false
	}
	share := 100 * min(upper, lower) / (upper + lower)
	return changes*4 >= len(s) && 50*strange/pairs+share >= 55
}

func isASCII(s string) bool { return !strings.ContainsFunc(s, func(r rune) bool { return r >= 0x80 }) }
