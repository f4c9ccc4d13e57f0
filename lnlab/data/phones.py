"""Phones: the 39 in which results are reported, TIMIT's 61, and how some words are spoken.

The 39 are those of Lee & Hon (1989), with closures and pauses as ``sil``; glottal stops are
left out.
"""

VOWELS = ("iy", "ih", "eh", "ae", "aa", "ah", "uh", "uw", "er", "ey", "ay", "oy", "aw", "ow")
CONSONANTS = (
    *("p", "b", "t", "d", "k", "g", "dx", "ch", "jh"),
    *("f", "v", "th", "dh", "s", "z", "sh", "hh"),
    *("m", "n", "ng", "l", "r", "w", "y"),
)
SILENCE = "sil"
PHONES = (*VOWELS, *CONSONANTS, SILENCE)

FOLDED = {
    **{phone: phone for phone in PHONES if phone != SILENCE},
    **{"ao": "aa", "ax": "ah", "ax-h": "ah", "axr": "er", "hv": "hh", "ix": "ih"},
    **{"el": "l", "em": "m", "en": "n", "nx": "n", "eng": "ng", "zh": "sh", "ux": "uw"},
    **dict.fromkeys(("pcl", "tcl", "kcl", "bcl", "dcl", "gcl"), SILENCE),
    **dict.fromkeys(("h#", "pau", "epi"), SILENCE),
}
"""The one of the 39 phones for each of TIMIT's 61; ``q``, the glottal stop, is left out."""

LEFT_OUT = ("q",)


def fold(phones: list[str]) -> list[str]:
    """TIMIT's phones as the 39, each run of silence as one.

    Raises:
        ValueError: for what is no phone of TIMIT; names it.
    """
    unknown = sorted(set(phones) - set(FOLDED) - set(LEFT_OUT))
    if unknown:
        raise ValueError(f"no phone of TIMIT: {', '.join(unknown)}.")
    folded: list[str] = []
    for phone in phones:
        if phone in LEFT_OUT:
            continue
        name = FOLDED[phone]
        if name != SILENCE or folded[-1:] != [SILENCE]:
            folded.append(name)
    return folded


WORDS = {
    word: tuple(phones.split())
    for word, phones in (
        line.split(maxsplit=1)
        for line in """
        zero z ih r ow
        one w ah n
        two t uw
        three th r iy
        four f aa r
        five f ay v
        six s ih k s
        seven s eh v ah n
        eight ey t
        nine n ay n
        apple ae p ah l
        baby b ey b iy
        bath b ae th
        beach b iy ch
        bird b er d
        boat b ow t
        book b uh k
        boy b oy
        bridge b r ih jh
        brother b r ah dh er
        bug b ah g
        cage k ey jh
        cat k ae t
        chair ch eh r
        cheese ch iy z
        child ch ay l d
        city s ih dx iy
        clock k l aa k
        cloud k l aw d
        coffee k aa f iy
        coin k oy n
        cook k uh k
        cow k aw
        cup k ah p
        dance d ae n s
        day d ey
        dog d aa g
        door d aa r
        dream d r iy m
        ear ih r
        earth er th
        egg eh g
        father f aa dh er
        feather f eh dh er
        fire f ay er
        fish f ih sh
        flower f l aw er
        foot f uh t
        friend f r eh n d
        garden g aa r d ah n
        gate g ey t
        girl g er l
        glass g l ae s
        gold g ow l d
        good g uh d
        green g r iy n
        hand hh ae n d
        house hh aw s
        ice ay s
        island ay l ah n d
        job jh aa b
        joy jh oy
        judge jh ah jh
        juice jh uw s
        key k iy
        king k ih ng
        knife n ay f
        ladder l ae dx er
        leaf l iy f
        letter l eh dx er
        light l ay t
        love l ah v
        measure m eh sh er
        milk m ih l k
        moon m uw n
        mother m ah dh er
        mouth m aw th
        music m y uw z ih k
        name n ey m
        night n ay t
        noise n oy z
        ocean ow sh ah n
        page p ey jh
        paper p ey p er
        push p uh sh
        queen k w iy n
        rain r ey n
        ring r ih ng
        river r ih v er
        road r ow d
        room r uw m
        school s k uw l
        ship sh ih p
        shoe sh uw
        sing s ih ng
        smooth s m uw dh
        song s aa ng
        sugar sh uh g er
        sun s ah n
        table t ey b ah l
        teacher t iy ch er
        thing th ih ng
        toy t oy
        tree t r iy
        vase v ey s
        vision v ih sh ah n
        voice v oy s
        wall w aa l
        watch w aa ch
        water w aa dx er
        weather w eh dh er
        window w ih n d ow
        wood w uh d
        yard y aa r d
        year y ih r
        yellow y eh l ow
        young y ah ng
        zoo z uw
        """.strip().splitlines()
    )
}
"""The phones of some English words; the ten digits first."""

DIGITS = tuple(WORDS)[:10]
