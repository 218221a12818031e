package wire

// The control memory of a doorbell. Words that one side writes while the other waits
// on them have a cache line each.
//
//	offset  size  word
//	0       4     number of the latest request, written by the host
//	4       4     what the request is, a Kind; written before the number
//	8       4     length of the request's text or of a series, 0 for a call
//	12      4     1 if the plugin's thread runs on the host's core alone, until it frees itself
//	16      4     1 if the series is to end behind the call that runs, written by the host
//	64      4     number of the latest reply, written by the plugin
//	128     4     1 while the plugin sleeps on the request
//	132     4     number of the plugin's thread that sleeps there, if it frees itself; or 0
//	136     4     0; where idle threads of the plugin sleep
//	140     4     the most calls that the plugin takes in a series; 0 for one that takes none
//	144     4     calls of the latest series that are done: 0 by the host before it rings, then by the plugin
//	192     4     1 while the host sleeps on the reply
//	200     4     0; where idle threads of the host sleep
//	256     4     Status of the reply
//	260     4     length of the reply's text
//	264     8     nanoseconds that the kernel ran
//	272     3824  the text, cut if longer
//	4096    ...   the call record, the records of a series one behind the other, or the request's text
const (
	OffRequest      = 0
	OffKind         = 4
	OffTextLength   = 8
	OffHere         = 12
	OffStop         = 16
	OffReply        = 64
	OffPluginAsleep = 128
	OffPluginThread = 132
	OffPluginIdle   = 136
	OffSeries       = 140
	OffDone         = 144
	OffHostAsleep   = 192
	OffHostIdle     = 200
	OffStatus       = 256
	OffAnswerLength = 260
	OffBusy         = 264
	OffAnswer       = 272
	OffRecord       = 4096
	ControlSize     = 1 << 20
)

// Limits of what fits.
const (
	MaxRecord = ControlSize - OffRecord // a call record, or the text of a request, in bytes
	MaxAnswer = OffRecord - OffAnswer   // the text of an answer, in bytes
	MaxSeries = 256                     // calls of a series
)
