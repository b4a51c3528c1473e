"""Function words of several languages: in nearly every document, about nothing.

From the closed classes (articles, pronouns, prepositions, conjunctions, auxiliaries, quantifiers, adverbs without a
subject), three letters and more: shorter words are no tokens.
"""

STOP_WORDS: dict[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "english": """
            about above according accordingly across actually after afterwards again against ago all almost alone
            along already also although always amid among amongst and another any anybody anyhow anyone anything
            anyway anywhere apart are aren around aside away back became because become becomes been before beforehand
            behind being below beneath beside besides between beyond both but came can cannot come comes could couldn
            did didn does doesn doing don done down during each either else elsewhere enough especially etc even ever
            every everybody everyone everything everywhere except few for former formerly forth from further
            furthermore gave get gets getting give given gives giving goes going gone got had hadn has hasn have haven
            having hence her here hereby herein hers herself him himself his how however indeed instead into isn its
            itself just keep keeps kept last latter least less lest let like likely made make makes making many may
            maybe meanwhile merely might mine more moreover most mostly much must myself namely near nearly neither
            never nevertheless next nobody none nonetheless noone nor not nothing now nowhere off often once one ones
            only onto other others otherwise ought our ours ourselves out over own particularly per perhaps please put
            quite rather really regarding said same saw say says see seem seemed seeming seems seen several shall she
            should shouldn since some somebody somehow someone something sometimes somewhat somewhere soon still such
            take taken takes than that the their theirs them themselves then thence there thereafter thereby therefore
            therein thereof these they thing things this those though through throughout thru thus till too took
            toward towards under unless unlike until unto upon use used uses using usually various very via was wasn
            way well went were weren what whatever when whence whenever where whereas whereby wherein wherever whether
            which whichever while whither who whoever whole whom whose why will with within without won would wouldn
            yes yet you your yours yourself yourselves
        """,
        "german": """
            aber alle allein allem allen aller allerdings alles als also andere anderem anderen anderer anderes anderm
            andern anders auch auf aus außer außerdem bald bei beide beiden beider beides beim bereits besonders bevor
            bin bis bist bloß dabei dadurch dafür dagegen daher dahin damals damit danach daneben dann daran darauf
            daraus darf darfst darin darum darunter darüber das dass davon davor dazu daß dein deine deinem deinen
            deiner deines dem demselben den denen denn dennoch denselben der deren derer derselbe derselben des
            deshalb desselben dessen desto deswegen dich die dies diese dieselbe dieselben diesem diesen dieser dieses
            dir doch dort dran drin durch durchaus dürfen dürft eben ebenso ehe eher eigentlich ein eine einem einen
            einer eines einfach einige einigem einigen einiger einiges einmal entweder erst erste ersten erster erstes
            etwa etwas euch euer eure eurem euren eurer eures falls fast für ganz gar gegen gegenüber gehabt genau
            genug gerade gern gewesen geworden gibt habe haben habt hast hat hatte hatten hattest hattet her hier hin
            hinter hätte hätten ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres immer indem infolge innerhalb ins
            irgend ist jede jedem jeden jeder jedes jedoch jemals jemand jene jenem jenen jener jenes jetzt kann
            kannst kaum kein keine keinem keinen keiner keines können könnt könnte könnten machen macht man manche
            manchem manchen mancher manches mehr mein meine meinem meinen meiner meines meist mich mir mit muss musst
            musste mussten muß mögen möglich müssen müsst nach nachdem nachher neben nein nicht nichts nie niemals
            niemand noch nun nur oben ober oberhalb obgleich obschon obwohl oder oft ohne per rund schon sehr seid
            sein seine seinem seinen seiner seines seit seitdem selber selbst sich sie sind sobald sodass sofern sogar
            solange solch solche solchem solchen solcher solches soll sollen sollst sollt sollte sollten somit sondern
            sonst sowie sowohl statt stets trotz trotzdem und unser unsere unserem unseren unserer unseres unter viel
            viele vielem vielen vieler vieles vielleicht vom von vor vorher wann war waren warst warum was wegen weil
            weiter weitere weiteren welche welchem welchen welcher welches wem wen wenig wenige weniger wenigstens
            wenn wer werde werden werdet weshalb wessen weswegen wie wieder wieso will willst wir wird wirklich wirst
            wobei wodurch wofür woher wohin wohl wollen wollt wollte womit woran worauf woraus worden worin worüber
            wurde wurden während würde würden zum zur zwar zwischen über überall überhaupt übrigens
        """,
        "french": """
            afin ailleurs ainsi alors après assez auprès auquel aura auraient aurais aurait aurez aurions auront aussi
            aussitôt autant autour autre autrefois autrement autres autrui aux auxquelles auxquels avaient avais avait
            avant avec avez aviez avions avoir avons ayant ayez ayons beaucoup bien bientôt car ceci cela celle celles
            celui cependant certain certaine certaines certains ces cet cette ceux chacun chacune chaque chez combien
            comme comment contre dans davantage debout dedans dehors demain depuis derrière des desquelles desquels
            dessous dessus devant donc dont duquel durant dès déjà elle elles encore enfin ensuite entre envers
            environ est eussent eut eux faire fait fois font furent fut guère hier hormis hors hélas ici ils jadis
            jamais jusqu jusque juste laquelle lequel les lesquelles lesquels leur leurs loin longtemps lors lorsque
            lui maintenant mais malgré mes mien mienne miennes miens mieux moi moindre moins mon même mêmes nombreux
            non nos notamment notre nous nul nulle néanmoins nôtre ont oui outre par parce parfois parmi partout pas
            pendant peu peut peuvent plupart plus plusieurs plutôt point pour pourquoi pourtant pouvait presque près
            puis puisque qual quand quant quel quelle quelles quelqu quelque quelques quels qui quiconque quoi quoique
            rien sans sauf selon sera seraient serais serait seront ses seul seulement sien sienne siennes siens sinon
            soi soient sois soit sommes son sont sous souvent suis suivant sur surtout tandis tant tantôt tel telle
            tellement telles tels tes tien tienne toi ton toujours tous tout toute toutefois toutes trop très une unes
            uns vers voici voilà vos votre vous vraiment vôtre étaient étais était étant été êtes être
        """,
        "spanish": """
            acá además adonde ahora ahí algo alguien alguna algunas alguno algunos algún allá allí ante antes apenas
            aquel aquella aquellas aquello aquellos aquí arriba así atrás aun aunque aún bajo bastante bien cabe cada
            casi cerca cierta ciertas cierto ciertos como con conmigo consigo contigo contra cosa cual cuales
            cualquier cualquiera cuando cuanta cuantas cuanto cuantos cuya cuyas cuyo cuyos cuál cuáles cuándo cuántos
            cómo dado debe deben del demasiado demás dentro desde después detrás dicha dicho donde dos durante dónde
            ella ellas ello ellos embargo emplear encima entonces entre era eran eras eres esa esas ese eso esos esta
            estaba estaban estado estamos estar estará estas este esto estos estoy estuvo está están fin fue fuera
            fueron fui gran grandes haber habido habrá había habían hace hacen hacer hacia hasta hay haya hecho hemos
            hoy incluso jamás junto lado largo las les los luego mas mayor mayoría mediante mejor menos mientras mis
            misma mismas mismo mismos mucha muchas mucho muchos muy más mía mías mío míos nada nadie ninguna ninguno
            ningún nos nosotras nosotros nuestra nuestras nuestro nuestros nunca otra otras otro otros para parte pero
            poca pocas poco pocos podemos poder podía por porque pueda puede pueden pues puesto que quien quienes
            quienquiera quizá quizás quién qué sea sean según ser será serán sería sido siempre siendo sin sino sobre
            sois sola solamente solo somos son soy sra sus suya suyas suyo suyos sólo tal tales también tampoco tan
            tanta tantas tanto tantos tener tengo tenido tenía tiene tienen toda todas todavía todo todos tras través
            tus tuya tuyas tuyo tuyos una unas uno unos usted ustedes varias varios veces vez vosotras vosotros
            vuestra vuestras vuestro vuestros ésta éstas éste éstos
        """,
        "italian": """
            abbia abbiamo abbiano affinché agl agli alcun alcuna alcune alcuni alcuno alla alle allo allora almeno
            altra altre altri altrimenti altro anche ancora anzi appena assai attraverso avanti avendo avere avete
            aveva avevano avevo avrebbe avrà avuto benché bene che chi chiunque ciascun ciascuna ciascuno cioè circa
            ciò codesta codesto cogli coi col coloro colui come comunque con contro cosa così cui dagli dai dal dall
            dalla dalle dallo davanti davvero degli dei del dell della delle dello dentro detto deve devono dietro
            dopo dove dovrebbe due dunque durante ebbe ecco egli ella entro era erano eravamo essa esse essendo essere
            essi esso fai fanno fare fatto finché fino forse fosse fossero fra fuori furono già giù gli hanno infatti
            infine inoltre insieme intanto intorno invece laddove lei loro lui lungo mai malgrado medesimo mediante
            meglio meno mentre mia mie miei mio molta molte molti molto negli nei nel nell nella nelle nello nessun
            nessuna nessuno niente noi non nonché nondimeno nonostante nostra nostre nostri nostro nulla ogni ognuna
            ognuno oltre oppure ora ossia ovunque ovvero parecchi parecchie parte peggio per perché perciò perfino
            persino però piuttosto più poca poche pochi poco poi poiché possa possono presso prima primo proprio pur
            pure può qua qual qualche qualcosa qualcuna qualcuno quale quali qualora qualsiasi qualunque quando quanta
            quante quanti quanto quasi quegli quei quel quell quella quelle quelli quello questa queste questi questo
            qui quindi salvo saranno sarebbe sarà sebbene secondo sei sempre senza seppure sia siamo siano siete sono
            sopra soprattutto sotto spesso sta stanno stata state stati stato stessa stesse stessi stesso sua subito
            sue sugli sui sul sull sulla sulle sullo suo suoi suvvia tale tali tanta tante tanti tanto tra tramite
            tranne troppo tua tue tuo tuoi tutta tuttavia tutte tutti tutto una uno verso via voi vostra vostre vostri
            vostro
        """,
        "portuguese": """
            acerca adiante agora ainda algo algum alguma algumas alguns alguém ali além ambas ambos ante antes apenas
            aquela aquelas aquele aqueles aqui aquilo assim através até bem cada cima coisa com como conforme consigo
            contra contudo cuja cujas cujo cujos daquela daquele daqui das debaixo dela delas dele deles demais dentro
            depois desde dessa dessas desse desses desta destas deste destes deve devem dois dos durante ela elas ele
            eles embora enquanto entre então era eram essa essas esse esses esta estamos estar estas estava estavam
            este esteja estes esteve estive estou está estão faz fazer fez foi fora foram fosse fossem fui havia hoje
            isso isto jamais lhe lhes logo longe mais mas meio melhor menos mesma mesmas mesmo mesmos meu meus mim
            minha minhas muita muitas muito muitos nada naquela naquele nas nela nele nem nenhum nenhuma nessa nesse
            nesta neste ninguém nos nossa nossas nosso nossos num numa nunca não nós onde ontem ora outra outras outro
            outros para pela pelas pelo pelos perante perto pode podem pois por porque porquê portanto porém posso
            pouca poucas pouco poucos primeiro própria próprio quais qual qualquer quando quanta quanto quantos quase
            que quem quer quê sem sempre senão ser seria será serão seu seus sido sob sobre sua suas também tampouco
            tanta tantas tanto tantos tem tendo tenha tenho ter teu teus teve tinha tinham toda todas todavia todo
            todos tua tuas tudo tão têm uma umas uns você vocês vos vossa vosso vários
        """,
        "dutch": """
            aan aangaande aangezien achter afgelopen aldaar aldus alhoewel alias alle allebei alleen alles als alsnog
            altijd altoos ander andere anderen anders anderszins beetje behalve behoudens beide beiden ben beneden
            bent bepaald bij bijna bijv binnen blijkbaar boven bovenal bovendien buiten daar daarheen daarin daarna
            daarnet daarom daarop daarvan daarvanlangs dan dat dez deze dezelfde die dikwijls dit doch doen doet door
            doorgaand dus echter een eens eerder eerst eigen eigenlijk elk elkaar elke enig enige enkel enkele enz
            erdoor ergens etc even eveneens evenwel gauw gedurende geen gehad gekund geleden gemoeten gemogen geweest
            gewoon gewoonweg geworden haar had hadden hare heb hebben hebt heeft hem hen het hetgeen hetzelfde hier
            hierbeneden hierboven hij hoe hoewel hun hunne ieder iedere iedereen iemand iets ikzelf inmiddels intussen
            inzake jezelf jij jijzelf jou jouw jouwe juist jullie kan klaar kon konden kunnen kunt later liever maar
            mag maken meer men met mezelf mijn mijnent mijner mijzelf misschien mocht mochten moest moesten moet
            moeten mogelijk mogen naar nabij nadat net niemand niet niets noch nog nogal nooit nou ofschoon omdat
            omhoog omlaag omstreeks omtrent omver onder ondertussen ongeveer ons onszelf onze ook opdat opnieuw opzij
            over overal overigens pas per precies reeds rond rondom sedert sinds sindsdien slechts sommige soms
            spoedig steeds tamelijk tegen tegenover ten tenzij ter terwijl thans tijdens toch toe toen tot totdat
            tussen uit uitgezonderd van vanaf vandaan vanuit vanwege veel veeleer verder vervolgens via vol volgens
            voor vooraf vooral voordat voorheen voorts vrij waar waarom waarop wanneer want waren was wat weer weg
            wegens wel welk welke werd werden wie wiens wier wij wijzelf wil worden wordt zal zeer zei zelf zelfde
            zelfs zich zichzelf zij zijn zijne zoals zodat zodra zonder zou zouden zowat zulk zulke zullen
        """,
    }.items()
}
