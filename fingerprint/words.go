package fingerprint

import "strings"

// This file knows the words around what varies, and how words read.

// among returns a function that reports whether a word is in a list.
func among(list string) func(w string) bool {
	words := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		words[w] = true
	}
	return func(w string) bool { return words[w] }
}

// inAnyCase is like among, for words in small letters, and knows them in capitals, too.
func inAnyCase(list string) func(w string) bool {
	has := among(list)
	return func(w string) bool { return has(strings.ToLower(w)) }
}

// timeWords are words of a date, if a number follows; zones are behind a time.
const timeWords = `Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec January February March April June July August
	September October November December Mon Tue Wed Thu Fri Sat Sun Monday Tuesday Wednesday Thursday Friday
	Saturday Sunday`

var (
	isUnit = among(`ns us µs μs ms s m h d sec secs second seconds min mins minute minutes hour hours day days
		millisecond milliseconds microseconds B b k K M G T kB KB MB GB TB KiB MiB GiB TiB Ki Mi Gi byte bytes week
		weeks month months year years PB PiB EiB Gb Mb kb Kb bit bits bps EUR USD GBP CHF JPY CNY RMB € £ ¥ Z x th st
		nd rd`)
	isTimeWord = among(timeWords)
	zones      = among(`UTC GMT CET CEST EST EDT PST PDT MSK CST CDT MST MDT BST IST JST KST WET WEST EET EEST HKT SGT AEST
		AEDT NZST NZDT AKST HST LMT AM PM am pm`)
	isMoney   = among(`EUR USD GBP CHF JPY CNY RMB € £ ¥`)
	isRelease = inAnyCase(`rc alpha beta pre dev snapshot release final ga post build patch incompatible m`)

	// announcesCode are words behind which a short number is a cause; isNaming those behind which a quoted name is;
	// keepsValue the keys whose value is.
	announcesCode = inAnyCase(`status code statuscode errcode http errno sqlstate exit`)
	isNaming      = inAnyCase(`key column table field constraint relation index attribute property reading parameter
		argument option module package function method class type schema database role extension header command
		sequence view variable flag setting library symbol trigger procedure operator keyword element plugin policy
		scope feature scheme encoding label`)
	keepsValue = inAnyCase(`code status reason error err type kind op method msg message cause event level state`)

	// identities are keys whose value says who or which one it was.
	identities = inAnyCase(`id uuid guid user username login name email mail tenant customer account host hostname ip
		addr address path file filename url uri session token trace span request key userid sessionid traceid spanid
		requestid clientid groupid orderid tenantid customerid accountid bucket object pod phone client remote peer
		instance`)
	// prose are words that begin what is wrong, where a value could be: "email: invalid" names no address.
	// saysWhatIsWrong are words behind a value.
	prose = inAnyCase(`no not is was must cannot can could invalid missing required unknown empty too already denied
		forbidden null nil none undefined true false connection timeout permission access operation context value
		unexpected internal bad error unable lookup dial read write open stat eof deadline broken address network host
		server resource service wrong duplicate unsupported malformed illegal out does has should the a an only wait
		request response invalidated disk file quota limit rate conflict unauthorized incorrect unreachable
		unavailable down busy locked closed short long absent blank corrupt in on at i ssl tls http json sql parse
		syntax zero gone`)
	saysWhatIsWrong = among(`not is was has does already cannot failed exists`)

	// resolves and dials are words in front of a host, opensFile in front of a path.
	resolves = among(`lookup ENOTFOUND AGAIN`)
	dials    = inAnyCase(`tcp udp tcp4 tcp6 udp4 udp6 dial host to from at server broker node upstream peer addr address
		endpoint econnrefused econnreset etimedout via with`)
	opensFile = inAnyCase(`open stat lstat fstat mkdir unlink unlinkat rename chdir chmod chown opendir readdir scandir
		rmdir remove file path directory dir folder readlink symlink truncate utime openat`)
	// isMedia are the first words of types of media, isForge the hosts that paths of packages begin with.
	isMedia = among(`application text image audio video multipart message font model`)
	isForge = among(`github.com gitlab.com bitbucket.org golang.org google.golang.org gopkg.in go.uber.org k8s.io
		sigs.k8s.io modernc.org cloud.google.com go.opentelemetry.io go.etcd.io`)
	plainDomains = among(`com org edu gov arpa localdomain`)
	domains      = among(`net mil int info biz io dev cloud app tech online site xyz local localhost internal svc lan
		home intranet corp cluster consul example test invalid onion eu de uk us fr nl ch cn jp ru au ca br se pl cz
		dk fi`)
	// wordDomains are words or endings of files, too; startsPackage begin packages of Java, and the like.
	wordDomains   = among(`it es at be ie in kr tw hk sg nz mx co ai me tv ua tr za gr pt`)
	startsPackage = among(`com org net io java javax jdk sun asp system self this de dev`)

	hexWords = inAnyCase(`accede acceded beaded bedded cabbed dabbed decade deeded deface defaced efface effaced
		fabaceae facade facaded fadded abaaed daffed baffed beefed feeded decaf`)
)

func isZone(w string) bool { return zones(w) || isTimeWord(w) }

func isIdentity(key string) bool {
	return strings.HasSuffix(key, "Id") || strings.HasSuffix(key, "ID") || identities(key)
}

func isProse(w string) bool {
	return prose(w) || strings.HasSuffix(w, "ed") || strings.HasSuffix(w, "ing") || strings.HasSuffix(w, "able")
}

const hexDigits = digits + "abcdefABCDEF"

// isHexID tells hexadecimal digits that happen to be letters from words.
func isHexID(w string) bool {
	return len(w) >= 6 && strings.Trim(w, hexDigits) == "" && (w == strings.ToLower(w) || w == strings.ToUpper(w)) &&
		!hexWords(w)
}

// following has the letters that commonly follow each letter in the words of programs and of English: 95 in 100
// pairs of letters are among them, but only half of the pairs of random letters.
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

// gibberish reports whether letters are too strange to be a word.
func gibberish(letters string) bool { return len(letters) >= 9 && isRandom(letters, true) }

// isRandom reports whether s is too strange to be a name, or to be a word. It counts pairs of neighbours that no word
// has: in a name of letters of both cases, or digits among them, it takes fewer; in the rest fewer if it is long.
func isRandom(s string, word bool) bool {
	var strange, pairs, changes int
	var n [256]int // by kind
	for i := range len(s) {
		c := s[i]
		if c >= 0x80 {
			return false
		}
		n[kind(c)]++
		if i == 0 {
			continue
		}
		p := s[i-1]
		if kind(p) != kind(c) {
			changes++
		}
		if !isWord(p) || !isWord(c) {
			continue
		}
		pairs++
		switch {
		case isDigit(p) && isDigit(c):
		case isDigit(p) || isDigit(c):
			strange += 2
		case kind(p) == 'a' && kind(c) == 'A':
			strange++
		case following[(p|0x20)-'a']&(1<<((c|0x20)-'a')) == 0:
			strange += 2
		}
	}
	letters := n['a'] + n['A']
	if !word && pairs > 0 && (n['0'] > 0 && letters > 0 || n['a'] > 0 && n['A'] > 0) {
		// the capitals that begin the words of a name are fewer than those of base64, and change less often
		return strange*2 >= pairs || changes*4 >= len(s) &&
			50*strange/pairs+100*min(n['a'], n['A'])/letters >= 55
	}
	share := 4
	if pairs < 12 {
		share = 7
	} else if pairs < 19 {
		share = 6
	}
	return strange*10 >= pairs*share
}

// kind returns 'a' for a small letter, or one beyond ASCII, 'A' for a capital, '0' for a digit, and else 0.
func kind(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return '0'
	case 'A' <= c && c <= 'Z':
		return 'A'
	case 'a' <= c && c <= 'z' || c >= 0x80:
		return 'a'
	}
	return 0
}

func isDigit(c byte) bool { return kind(c) == '0' }
func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }
func isWord(c byte) bool  { return kind(c) != 0 }

// isToken reports whether keys and base64 may have c, besides dots and slashes.
func isToken(c byte) bool { return isWord(c) || c == '_' || c == '-' || c == '+' || c == '=' }

// leadingWord is what of letters and digits s begins with.
func leadingWord(s string) string {
	for i := range len(s) {
		if !isWord(s[i]) {
			return s[:i]
		}
	}
	return s
}
