"""The phrases from which the simulated extractor draws mentions.

A `CLEAR` phrase belongs to one relation, though its words occur in many. A `VAGUE` phrase is shared by two to four
relations, so only the two entities show which one is meant. The first phrases of a relation are drawn most often.

Phrases and relation names are data of the shipped atlas and keep its British spelling.
"""

from __future__ import annotations

# fmt: off
CLEAR: dict[str, tuple[str, ...]] = {
    "located in": (
        "is a city in", "is a town in the country of", "is one of the cities of",
        "lies within the borders of", "is a city belonging to the state of", "can be found on the map of",
    ),
    "has city": (
        "has among its cities", "is where one visits the city of", "counts among its big cities",
        "has a large town called", "is a country with the city of", "is the country around the city of",
    ),
    "capital of": (
        "is the capital of", "is the seat of government of", "is the capital city of",
        "hosts the parliament of", "is where the government sits in", "has the ministries of",
    ),
    "has capital": (
        "has its capital at", "has as its capital", "is governed from", "has its government in the city of",
        "keeps its parliament in", "whose capital is",
    ),
    "largest city of": (
        "is the largest city of", "is the most populous city in", "is the biggest city in the country of",
        "has more people than any city of", "ranks first by population in", "is the metropolis of",
    ),
    "second city of": (
        "is the second city of", "is the second largest city in", "ranks second by population in",
        "comes right after the largest city of", "is the runner up among the cities of", "is number two in",
    ),
    "lies in region": (
        "is a city in the region of", "lies in the region called", "is a town of the province of",
        "is administered as part of the region of", "is among the cities of the region",
        "is a place in the province",
    ),
    "largest city in region": (
        "is the largest city of the region", "is the biggest town of the province",
        "gives the region its main city", "ranks first among the towns of the region",
        "is the most populous place in the region", "dominates the province",
    ),
    "region of": (
        "is a region of", "is a province of", "is one of the regions of",
        "is an administrative division of", "is a state within the country of",
        "is a first level division of",
    ),
    "has region": (
        "has a region called", "is divided into regions such as", "counts among its provinces",
        "is a country with the province of", "has an administrative division named",
        "governs the region of",
    ),
    "region keeps time zone": (
        "is a region on the clock of", "is a province in the time zone", "as a region observes the zone",
        "keeps its regional clocks on", "is a region whose zone is", "as a province keeps the time of",
    ),
    "in time zone": (
        "is in the time zone", "observes the time zone", "keeps the local time of",
        "has its clocks in the zone", "has its hour from the zone", "is a city on the clock of",
    ),
    "on continent": (
        "is on the continent of", "lies on the continent", "is on the landmass of",
        "is counted with the continent", "belongs to the continent of", "is a part of the world called",
    ),
    "near": (
        "is near", "is a short drive from", "is a neighbouring town of", "has close by the town of",
        "is a few kilometres from", "lies in the vicinity of",
    ),
    "nearest larger city": (
        "has as its nearest larger city", "looks for a bigger city to", "is smaller than nearby",
        "is in the orbit of", "goes shopping in the larger city of", "is overshadowed by the larger",
    ),
    "east of": (
        "is east of", "lies to the east of", "is on the sunrise side of", "is a city eastward from",
        "is reached by going east from", "has to its west",
    ),
    "north of": (
        "is north of", "lies to the north of", "is up north from", "is a city northward from",
        "is reached by going north from", "has to its south",
    ),
    "people pay with": (
        "is a city where people pay with", "has shops that take the", "does its shopping in",
        "has market prices in", "is a town where one pays in", "has bakers who are paid in",
    ),
    "people speak": (
        "is a city where people speak", "has streets where one hears", "is a town of speakers of",
        "has schools that teach in", "has street signs in", "has newspapers printed in",
    ),
    "reached by dialling": (
        "is reached by dialling", "can be called from abroad with", "has phone numbers that begin with",
        "is a city phoned with the prefix", "answers calls to the prefix", "has local phones behind",
    ),
    "web addresses end in": (
        "has web addresses that end in", "has a city website under", "has local shops online under",
        "puts its town hall online under", "has email addresses ending in", "is a city found online under",
    ),
    "dialling code": (
        "has the dialling code", "has the country calling code", "has the international phone prefix",
        "is the country phoned with", "has the telephone code", "is called from abroad as a country with",
    ),
    "internet domain": (
        "has the internet domain", "has the top level domain", "has the country domain",
        "registers websites under", "has the national web suffix", "was given on the internet the ending",
    ),
    "domain of": (
        "is the internet domain of", "is the top level domain of", "is the web suffix of",
        "marks the websites of", "ends the web addresses of", "is the country domain of",
    ),
    "shares a border with": (
        "shares a border with", "borders directly on", "has a land border with",
        "is a neighbouring country of", "has a frontier with", "meets at the frontier",
    ),
    "has time zone": (
        "has the time zone", "is a country with the time zone", "has clocks in the zone of",
        "spans among its zones", "has a zone named after", "has territory in the time zone",
    ),
    "time zone of": (
        "is the time zone of", "is a time zone in", "is the clock of the country",
        "gives the local time in", "names the zone observed by", "is the zone kept by",
    ),
    "standard time": (
        "is a zone on", "is one of the zones of", "counts as a zone of", "shows on its clock the standard",
        "is among the zones that share", "is grouped under the standard time",
    ),
    "keeps standard time": (
        "is a country that keeps", "has as its standard time", "sets its national clocks to",
        "by law keeps", "has as legal time", "is a country on the standard time",
    ),
    "official language": (
        "has the official language", "has as its official language", "makes its laws in",
        "is officially a country of", "recognises as its state language", "has its constitution in",
    ),
    "official in": (
        "is an official language of", "has official standing in", "is the language of the law in",
        "is the state language of", "is the language of parliament in", "is officially recognised in",
    ),
    "official script": (
        "is a country that writes in", "has its laws written in", "prints its passports in",
        "has official texts in", "writes its official language in", "has road signs in the letters of",
    ),
    "also spoken": (
        "has people who also speak", "has a minority that speaks", "has many speakers of",
        "has at home families using", "has unofficially the language", "hears in its markets also",
    ),
    "regional language": (
        "has as a regional language", "recognises in some regions", "has provinces where the language is",
        "protects as a regional language", "has regional laws in", "grants regional standing to",
    ),
    "has most speakers in": (
        "has most of its speakers in", "is spoken by more people than elsewhere in",
        "has its largest community in", "is a language centred on", "is the tongue of most speakers in",
        "has its native land in",
    ),
    "written in": (
        "is written in", "is a language written with the letters of", "has an alphabet called",
        "is put on paper in", "is spelt in", "has books printed in",
    ),
    "uses currency": (
        "uses the currency", "has as its currency", "pays with the", "has a central bank that issues",
        "has as legal tender", "is a country with the money called",
    ),
    "currency of": (
        "is the currency of", "is the money of", "is legal tender in", "is issued by the central bank of",
        "is the coin of the country", "pays for things in",
    ),
    "formerly used": (
        "formerly used the", "once paid with", "gave up its old currency the", "was a country with the old",
        "until recently had the currency", "remembers the old money",
    ),
    "former currency of": (
        "is the former currency of", "is the old money of", "was once legal tender in",
        "was issued until lately by", "filled the purses of", "is a currency given up by",
    ),
    "replaced by": (
        "was replaced by the", "is an old currency exchanged for", "was withdrawn in favour of",
        "made room for the new currency", "was succeeded by", "was changed into",
    ),
    "week starts on": (
        "starts its week on", "has a week that starts on", "has calendars whose first day is",
        "takes as first day of the week", "goes back to work on", "opens the calendar week with",
    ),
    "weekend starts on": (
        "starts its weekend on", "has a weekend that starts on", "rests from work from",
        "takes the first free day on", "closes its offices from", "has as first day of rest",
    ),
}
# fmt: on

VAGUE: dict[str, tuple[str, ...]] = {
    "is in": ("located in", "in time zone", "lies in region", "on continent"),
    "belongs to": ("located in", "lies in region", "domain of", "in time zone"),
    "lies in": ("in time zone", "located in", "on continent", "lies in region"),
    "is part of": ("lies in region", "region of", "on continent", "standard time"),
    "is found in": ("located in", "has most speakers in", "region of"),
    "is close to": ("near", "nearest larger city", "shares a border with"),
    "is not far from": ("nearest larger city", "near", "north of", "east of"),
    "is next to": ("near", "shares a border with", "east of", "north of"),
    "lies beyond": ("north of", "east of", "nearest larger city"),
    "is home to": ("has city", "also spoken", "has region", "has capital"),
    "is known for its": ("uses currency", "regional language", "people speak", "has city"),
    "takes in": ("has region", "has city", "has time zone"),
    "has the main city": ("has capital", "has city"),
    "is the main city of": ("largest city of", "capital of", "largest city in region"),
    "is the heart of": ("capital of", "largest city in region", "second city of"),
    "is a major city of": ("second city of", "largest city of", "located in"),
    "goes by": ("in time zone", "web addresses end in", "reached by dialling", "keeps standard time"),
    "runs on": ("region keeps time zone", "in time zone", "keeps standard time", "standard time"),
    "has its time from": ("standard time", "region keeps time zone", "has time zone"),
    "counts in": ("time zone of", "currency of", "official in"),
    "is kept in": ("time zone of", "currency of", "has most speakers in"),
    "makes use of": ("people pay with", "uses currency", "official script", "people speak"),
    "uses the code": ("reached by dialling", "web addresses end in", "dialling code", "internet domain"),
    "is known abroad by": ("dialling code", "internet domain", "reached by dialling", "web addresses end in"),
    "deals in": ("people pay with", "uses currency", "formerly used"),
    "gets by in": ("people speak", "official language", "also spoken", "regional language"),
    "is used in": ("official in", "currency of", "domain of"),
    "is the main one in": ("official in", "currency of", "time zone of", "has most speakers in"),
    "is written with": ("written in", "official script"),
    "appears in": ("written in", "official in"),
    "has for a long time had": ("official language", "official script", "has capital"),
    "gave way to": ("replaced by", "formerly used"),
    "has a past with": ("formerly used", "replaced by"),
    "belongs to the past of": ("former currency of", "replaced by"),
    "is well known in": ("former currency of", "has most speakers in"),
    "is now": ("replaced by", "written in"),
    "begins on": ("week starts on", "weekend starts on"),
    "looks forward to": ("weekend starts on", "week starts on"),
    "reaches as far as": ("shares a border with", "has time zone"),
}
