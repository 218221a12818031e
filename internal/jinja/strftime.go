package jinja

import (
	"fmt"
	"strings"
	"time"
)

// strftimeNow writes the current time as C's strftime does.
func strftimeNow(r *run, a args) (any, error) {
	v, err := a.bind("strftime_now", 1, "format")
	if err != nil {
		return nil, err
	}
	format, err := textArg("strftime_now", v[0])
	if err != nil {
		return nil, err
	}
	s, err := strftime(format, r.now())
	if err != nil {
		return nil, err
	}
	return r.made(s)
}

// goLayouts are the directives of strftime that are a layout of Go's package time.
var goLayouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'd': "02", 'm': "01", 'y': "06", 'Y': "2006",
	'H': "15", 'I': "03", 'M': "04", 'S': "05", 'p': "PM", 'e': "_2", 'j': "002", 'Z': "MST", 'z': "-0700",
	'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05",
}

func strftime(format string, t time.Time) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		bare := format[i] == '-' && i+1 < len(format) // %-d is %d without its zero
		if bare {
			i++
		}
		s, err := directive(format[i], t)
		if err != nil {
			return "", err
		}
		if bare && len(s) > 1 {
			s = strings.TrimLeft(s[:len(s)-1], "0 ") + s[len(s)-1:]
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func directive(c byte, t time.Time) (string, error) {
	if c == 'f' {
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), nil
	}
	if layout, ok := goLayouts[c]; ok {
		return t.Format(layout), nil
	}
	_, isoWeek := t.ISOWeek()
	weekday := int(t.Weekday())
	switch c {
	case '%':
		return "%", nil
	case 'n':
		return "\n", nil
	case 't':
		return "\t", nil
	case 's':
		return fmt.Sprint(t.Unix()), nil
	case 'w':
		return fmt.Sprint(weekday), nil
	case 'u':
		return fmt.Sprint((weekday+6)%7 + 1), nil
	case 'U':
		return fmt.Sprintf("%02d", (t.YearDay()+6-weekday)/7), nil
	case 'W':
		return fmt.Sprintf("%02d", (t.YearDay()+6-(weekday+6)%7)/7), nil
	case 'V':
		return fmt.Sprintf("%02d", isoWeek), nil
	case 'C':
		return fmt.Sprintf("%02d", t.Year()/100), nil
	}
	return "", fmt.Errorf("strftime_now: unknown directive %%%c", c)
}
